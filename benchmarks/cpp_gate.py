"""The check of C++ against valid files: nothing may be refused that g++ takes.

Makes C++ files with preprocessor lines at every place between two statements, takes those that g++
accepts, and reads the headers of the system; a header that the check refuses is given to g++.
The share of files that lack one bracket and are refused is a figure, not a bound.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from akg_tui.hashline.parse_gate import fault_in

FILES = 2_000
HEADERS = 4_000
SEED = 24
SUFFIXES = frozenset({"", ".h", ".hpp", ".cuh", ".tcc"})
FOLDERS = (Path("/usr/include"), Path("/usr/local/include"))

_HEAD = """\
#include <cstddef>
#define STEP(i) f((i) + 1);
#define LOOP(i, n) for (int i = 0; i < (n); ++i)
#define TEXT(x) #x
static void f(int) {}
template <int N> struct Box { int a[N]; int& operator[](int i) { return a[i]; } };
"""
_LINES = (
    "#pragma omp simd",
    "#pragma omp parallel for \\\n    schedule(static) // (of { all",
    "#ifdef FAST\n    f(1);\n#else\n    f(2);\n#endif",
    "#undef WIDE\n#define WIDE 1",
    "#line 7",
    "// a comment with } and '\\\n   continued {",
    '/* a comment with ( and " */',
    "#warning don't /* look: } */",
)
_HIDING = (
    "#if 0\n    ) isn't code {\n#endif",
    "#ifdef WIDE\n    if (n > 1) {\n#else\n    if (n > 2) {\n#endif\n    f(3); }",
    "#define BRACE {\n    if (n) BRACE f(0); }",
    "    f(sizeof(TEXT({)));",
)
"""Lines that decide which brackets the compiler sees."""
_BEFORE_LOOPS = ("#pragma GCC ivdep", "#pragma GCC unroll 4", *_LINES[:2])
_SIMPLE = (
    "f(n);",
    "STEP(n)",
    "n += 1'000 + 0x1p3;",
    '{ const char* s = R"a( " ) }) )a"; (void)s; }',
    "{ const char c = '\\''; f(c + '{'); }",
    'f(sizeof("\\"(" TEXT([])));',
    "{ auto g = [&](int k) -> int { return k[x]; }; f(g(n)); }",
    "{ Box<4> b{}; f(b[n & 3]); }",
    "LOOP(j, n) f(j);",
    "{ int t[2] = {1, 2}; f(t[0]); }",
    ";",
)


def valid_text(draw: random.Random) -> str:
    """Return C++ with a preprocessor line or a comment at each place between statements.

    In a third of the texts the preprocessor hides brackets.
    """
    bodies = "\n".join(
        f"void g{number}(int n, int* x) {{\n{_block(draw, 3)}\n}}" for number in range(3)
    )
    if draw.random() < 1 / 3:
        bodies += f"\nvoid h(int n) {{\n{draw.choice(_HIDING)}\n}}"
    return f"{_HEAD}{bodies}\n"


def _block(draw: random.Random, depth: int) -> str:
    return "\n".join(_statement(draw, depth) for _ in range(draw.randint(1, 3)))


def _statement(draw: random.Random, depth: int) -> str:
    return f"{draw.choice(_LINES)}\n{_bare(draw, depth)}"


def _bare(draw: random.Random, depth: int) -> str:
    """Return a statement. A line of the preprocessor may stand before its inner statements."""
    form = draw.randint(0, 6) if depth else 0
    if form == 0:
        return draw.choice(_SIMPLE)
    inner = f"{draw.choice(_LINES[:2])}\n{{\n{_block(draw, depth - 1)}\n}}"
    match form:
        case 1:
            return f"{draw.choice(_BEFORE_LOOPS)}\nfor (int i = 0; i < n; ++i)\n{inner}"
        case 2:
            return f"if (n > 3)\n{inner}"
        case 3:
            return f"if (n > 3)\n{inner}\nelse\n{draw.choice(_LINES[:3])}\n    f(n);"
        case 4:
            return f"while (n--)\n{inner}"
        case 5:
            return f"do\n{inner}\nwhile (n-- > 0);"
    return f"switch (n) {{\ncase 1:\n{inner}\nbreak;\ndefault:\n    break;\n}}"


def accepted(texts: Sequence[str]) -> list[bool]:
    """Return for each text whether g++ takes it."""
    with tempfile.TemporaryDirectory(prefix="akg-cpp-gate-") as folder:
        found = []
        for text in texts:
            path = Path(folder) / "a.cpp"
            path.write_text(text)
            found.append(_takes(path))
        return found


def _takes(path: Path) -> bool:
    command = ["g++", "-std=c++17", "-fsyntax-only", "-w", "-x", "c++", str(path)]
    quiet = subprocess.DEVNULL
    return not subprocess.run(command, stdout=quiet, stderr=quiet, check=False).returncode


def without_a_bracket(text: str, draw: random.Random) -> str:
    """Return the text without one bracket."""
    places = [at for at, sign in enumerate(text) if sign in "(){}[]"]
    at = draw.choice(places)
    return text[:at] + text[at + 1 :]


def headers(most: int) -> list[Path]:
    """Return header files of this machine, at most `most`, spread over all of them."""
    torch = find_spec("torch")
    own = [Path(torch.origin).parent / "include"] if torch and torch.origin else []
    folders = [*FOLDERS, *own]
    found = sorted(
        path
        for folder in folders
        if folder.is_dir()
        for path in folder.rglob("*")
        if path.suffix in SUFFIXES and path.is_file()
    )
    random.Random(SEED).shuffle(found)
    return found[:most]


def measure(files: int, most_headers: int) -> dict[str, object]:
    """Return the figures; needs g++."""
    draw = random.Random(SEED)
    made = [valid_text(draw) for _ in range(files)]
    valid = [text for text, takes in zip(made, accepted(made), strict=True) if takes]
    broken = [without_a_bracket(text, draw) for text in valid]
    real = headers(most_headers)
    doubted = [path for path in real if fault_in(path.read_bytes(), "cpp")]
    return {
        "benchmark": "cpp_gate",
        "files": len(made),
        "taken_by_gcc": len(valid),
        "refused": sum(fault_in(text.encode(), "cpp") is not None for text in valid),
        "headers": len(real),
        "headers_refused": [str(path) for path in doubted if _takes(path)],
        "headers_refused_by_both": len(doubted) - sum(map(_takes, doubted)),
        "without_a_bracket_refused": sum(bool(fault_in(t.encode(), "cpp")) for t in broken),
    }


def main(words: list[str]) -> bool:
    """Measure and print; return whether no file is refused that g++ takes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks cpp_gate", description=__doc__)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--headers", type=int, default=HEADERS)
    given = parser.parse_args(words)
    if shutil.which("g++") is None:
        print(json.dumps({"benchmark": "cpp_gate", "skipped": "no g++"}))
        return True
    found = measure(given.files, given.headers)
    print(json.dumps(found))
    return not found["refused"] and not found["headers_refused"] and bool(found["taken_by_gcc"])
