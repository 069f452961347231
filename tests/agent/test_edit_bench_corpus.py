"""The benchmark on a code base: faults in every language, repairs in every format, one table."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from akg_tui.agent.chat import ChatRequest
from akg_tui.cli import main
from akg_tui.hashline import Document, Tagger
from akg_tui.hashline.file_reader import Refusal
from benchmarks.edit_formats.languages import language_of, parses, same_code
from benchmarks.edit_formats.mutations import KINDS, OPTIONAL_CHAINING, mutations, planted
from benchmarks.edit_formats.whole_file import ALL_FORMATS, WRITE, open_any
from benchmarks.edit_models.checks import check_task, unsound
from benchmarks.edit_models.code_base import BadCorpus, Drawn, draw_from
from benchmarks.edit_models.session import run_session
from benchmarks.edit_models.tasks import EditTask, task_of
from tests.agent.test_edit_bench import Playing, called

PYTHON = """\
def weigh_{n}(rows, limit=3, fast=True):
    if not rows:
        return None
    total = limit + {n}
    total = max(total, limit)
    print(f"{{total + 1:>8}}")
    return total if fast and total < 9 else rows
"""
CPP = """\
float weigh_{n}(const float* rows, int limit) {{
    if (!rows) {{
        return 0.0f;
    }}
    float total = limit + {n};
    total = pick(total, limit);
    store(total);
    bool fast = true;
    return fast && total < 9 ? total : -total;
}}
"""
SCRIPT = """\
export const weigh_{n} = (rows, limit) => {{
  if (!rows) {{
    return null;
  }}
  let total = limit + {n};
  total = pick(total, limit);
  store(rows?.first?.[0], rows.last?.(total));
  const fast = true;
  return fast && total === 9 ? total : `${{total}}  `;
}};
"""
TYPED = SCRIPT.replace("(rows, limit)", "(rows: Row<string>, limit: number): Sum")
MARKUP = """\
function Weight_{n}({{ rows, fast }}) {{
  const total = rows?.length + {n};
  return (
    <p hidden={{!fast}}>
      {{total}} of {{pick(total, fast)}}
    </p>
  );
}}
"""


def written(folder: Path) -> Path:
    """A code base with files in each language, and files in which no fault may be planted."""

    def put(path: str, pattern: str, *, newline: str = "\n", end: str = "\n") -> str:
        text = (newline * 2).join(
            pattern.format(n=n).rstrip("\n").replace("\n", newline) for n in range(5)
        )
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes((text + end).encode())
        return text

    put("code/weigh.py", PYTHON)
    put("code/weigh.cpp", CPP)
    put("code/weigh.cu", CPP.replace("float weigh", "__device__ float weigh"))
    put("web/weigh.js", SCRIPT)
    put("web/weigh.jsx", MARKUP)
    put("web/weigh.tsx", SCRIPT + MARKUP)
    put("web/weigh.ts", TYPED)
    put("windows.py", PYTHON, newline="\r\n", end="\r\n")
    put("windows.ts", TYPED, newline="\r\n", end="\r\n")
    put("unfinished.js", SCRIPT, end="")
    put("node_modules/left.js", SCRIPT)
    put(".hidden/left.js", SCRIPT)
    put("broken.js", SCRIPT, end="\n}\n")
    put("mixed.js", SCRIPT, end="\r\n")
    put("short.py", "x = {n}")
    put("packed.js", SCRIPT, end="\nx = [" + "1, " * 200 + "1];\n")
    put("marked.py", PYTHON)
    (folder / "marked.py").write_bytes(b"\xef\xbb\xbf" + (folder / "marked.py").read_bytes())
    (folder / "latin.js").write_bytes(b"// caf\xe9\n" * 40)
    (folder / "read.me").write_text("no source\n" * 40)
    (folder / "far.py").symlink_to(folder / "code/weigh.py")
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def drawn(corpus: Path) -> Drawn:
    return draw_from(corpus, 90, seed=1)


def _document(text: str, path: str) -> Document:
    return Document.from_text(text, path=path)


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("a.py", "x = f(a,b)\n", "x = f(\n  a,   b\n)\n"),
        ("a.py", "if a:\n  b\n  c\n", "if a:\n    b\n\n    c"),
        ("a.py", "x = 1 + \\\n  2\n", "x = 1 + 2  \n"),
        ("a.py", "f'{ x }' # of x\n", "f'{x}'  # of x\n"),
        ("a.cpp", "#define A 1\nint x;", "#define  A   1\nint  x ;\n"),
        ("a.cpp", "/* a\n * b */ int x;", "/* a\n     * b */\nint x;"),
        ("a.cu", "void g(){f<<<1,n>>>(x);}", "void g() { f<<<1, n>>>( x ); }"),
        ("a.jsx", "x = <p>hi</p>;", "x = <p>\n  hi\n</p>;"),
        ("a.ts", "a\r\n  ?.b;", "a?.b;\n"),
        ("a.tsx", "let a: A<B>=b", "let a: A < B > = b"),
    ],
)
def test_code_is_the_same_in_another_layout(path: str, one: str, other: str) -> None:
    assert one != other
    assert same_code(_document(one, path), _document(other, path))
    assert same_code(_document(other, path), _document(one, path))


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("a.py", "if a:\n  b\n  c\n", "if a:\n  b\nc\n"),
        ("a.py", "x = 'a  b'\n", "x = 'a b'\n"),
        ("a.py", "x = 'a  \\n'\n", "x = 'a \\n'\n"),
        ("a.py", "f'{x:>4}'\n", "f'{x:> 4}'\n"),
        ("a.py", "x = 1 # a\n", "x = 1 # b\n"),
        ("a.cpp", "char f(){return ' ';}", "char f(){return '\\t';}"),
        ("a.cpp", "char f(){return ' ';}", "char f(){return '\t';}"),
        ("a.cpp", 'auto s = R"(a  b)";', 'auto s = R"(a b)";'),
        ("a.js", "function f(){return\nx}", "function f(){return x}"),
        ("a.js", "a = b", "a = b;"),
        ("a.ts", "let a=`a  b`", "let a = `a b`"),
        ("a.ts", "let a=/a  b/", "let a = /a b/"),
        ("a.jsx", "x = <p>hi {a}</p>;", "x = <p>hi{a}</p>;"),
        ("a.js", "a = {", "a  = {"),
    ],
)
def test_other_code_and_code_with_an_error_is_not_the_same(path: str, one: str, other: str) -> None:
    assert not same_code(_document(one, path), _document(other, path))


@pytest.mark.parametrize("path", ["a.js", "a.ts", "a.tsx"])
def test_optional_chaining_is_removed_from_names_indices_and_calls(path: str) -> None:
    document = _document("x = a?.b;\ny = a?.[0];\nz = a?.(1) ? 1 : 2;\nw = a.b ?? c;\n", path)
    faults = [fault for fault in mutations(document) if fault.kind == OPTIONAL_CHAINING]
    made = [planted(document, fault) for fault in faults]
    changed = [
        now
        for each in made
        for old, now in zip(document.lines, each.lines, strict=True)
        if old != now
    ]
    assert changed == ["x = a.b;", "y = a[0];", "z = a(1) ? 1 : 2;"]
    assert all(parses(each) and not same_code(each, document) for each in made)


def test_every_language_gets_every_kind_of_fault_that_it_can_have(drawn: Drawn) -> None:
    kinds: dict[str, Counter[str]] = {}
    for task in drawn.tasks:
        kinds.setdefault(str(language_of(task.path)), Counter())[task.kind] += 1
    assert set(kinds) == {"python", "cpp", "cuda", "javascript", "typescript", "tsx"}
    for language, counts in kinds.items():
        has_chains = language in ("javascript", "typescript", "tsx")
        assert set(KINDS) - set(counts) <= (
            {"guard removed"} if has_chains else {OPTIONAL_CHAINING}
        )
    assert {counts.total() for counts in kinds.values()} == {15}


def test_faults_are_planted_once_each_in_fit_files_only(corpus: Path, drawn: Drawn) -> None:
    assert len(drawn.tasks) == 90
    used = {task.path for task in drawn.tasks}
    assert used == {
        "code/weigh.py", "code/weigh.cpp", "code/weigh.cu", "web/weigh.js", "web/weigh.jsx",
        "web/weigh.tsx", "web/weigh.ts", "windows.py", "windows.ts", "unfinished.js",
    }  # fmt: skip
    assert drawn.unfit == {
        "does not parse": 1, "mixed line endings": 1, "not 30 to 800 lines": 1,
        "a line over 300 characters": 1, "a byte order mark or NUL": 1, "not UTF-8": 1,
    }  # fmt: skip
    assert len({(task.path, task.broken) for task in drawn.tasks}) == 90
    for task in drawn.tasks:
        assert task.original.encode() == (corpus / task.path).read_bytes()
        assert "in the function `weigh_" in task.prompt.lower().replace("weight_", "weigh_")
    assert draw_from(corpus, 18, seed=1).tasks == drawn.tasks[:18]
    assert draw_from(corpus, 18, seed=2).tasks != drawn.tasks[:18]


def test_a_folder_that_gives_few_tasks_or_none_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadCorpus, match="no file of 30 to 800 lines"):
        draw_from(tmp_path, 5, seed=1)
    with pytest.raises(BadCorpus, match="no such folder"):
        draw_from(tmp_path / "none", 5, seed=1)
    calls = [f"f_{n}(1)\n" for n in range(30)]
    (tmp_path / "calls.py").write_text("".join(calls))
    every = draw_from(tmp_path, 100_000, seed=1)
    made = {(task.kind, task.broken) for task in every.tasks}
    kinds = Counter(kind for kind, _ in made)
    # Not the deletion of the first line: a repair needs a line to begin at.
    assert kinds == {
        "off by one": 30, "identifier renamed": 30, "lines swapped": 29, "statement deleted": 29,
    }  # fmt: skip
    assert (len(every.tasks), every.faults_left_out) == (118, 1)
    assert main(["bench", "edits", "--corpus", str(tmp_path), "--tasks", "119"]) == 0
    printed = capsys.readouterr()
    assert "gives only 118 of the 119 tasks" in printed.err
    assert "faults tried and left out: 1\n" in printed.out


def test_the_command_restores_every_file_in_every_format(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "edits", "--corpus", str(corpus), "--tasks", "30", "--seed", "3"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tasks"] == 30
    assert told["not_parsing"] == told["not_different"] == 0
    assert told["unsound"] == []
    assert told["restored"] == dict.fromkeys(ALL_FORMATS, 30)
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"30 tasks in {corpus.name}, seed 3"
    assert any(line.startswith("optional chaining removed") for line in lines)
    assert main(["bench", "edits", "--corpus", str(corpus / "none")]) == 2


def _task(broken: str, original: str, path: str = "a.py") -> EditTask:
    return EditTask("t1", "off by one", path, broken, original, "")


def test_a_task_that_cannot_be_repaired_fairly_is_found() -> None:
    sound = _task("a = 1\nb = 3\n", "a = 1\nb = 2\n")
    assert check_task(sound).sound
    no_code = _task("a = (\nb = 3\n", "a = 1\nb = 2\n")
    assert not check_task(no_code).parses
    layout = _task("a = 1\nb  = 2\n", "a = 1\nb = 2\n")
    assert not check_task(layout).differs
    no_end = check_task(_task("a = 1\nb = 3\n", "a = 1\nb = 2"))
    assert no_end.unrestored == ALL_FORMATS, "a repair of lines keeps the last line's end"
    assert len(unsound([sound, no_code, layout])) == 2


def test_a_whole_file_is_refused_only_if_it_is_no_text() -> None:
    document = _document("a = 1\n", "a.py")
    form = open_any(WRITE, Tagger(b"k"))
    made = form.apply(document, {"content": ""})
    assert isinstance(made, Document)
    assert (made.data, made.revision) == (b"", 1)
    for content in (None, 3, "\ud800"):
        assert isinstance(form.apply(document, {"content": content}), Refusal)


async def test_a_write_tool_stands_beside_edit_only_if_asked_for() -> None:
    task = _task("a = 1\nb = 3\n", "a = 1\nb = 2\n")
    whole = called("write", {"content": "a = 1\nb  =  2"})
    model = Playing(whole)
    found = await run_session(task, "hashline", 1, model, key=b"k", write_tool=True)
    assert [tool.name for tool in model.asked[0].tools] == ["edit", "write", "read"]
    assert "`edit` or `write`" in model.asked[0].system
    assert (found.fixed, found.formatted, found.wrong) == (False, True, True)
    assert (found.edits, found.writes, found.refused) == (1, 1, 0)
    # After the write, the tags of the new file are known and those of the old one stale.
    view = _shown(model.asked[1])
    assert "b  =  2" in view
    model = Playing(whole)
    found = await run_session(task, "hashline", 1, model, key=b"k")
    assert [tool.name for tool in model.asked[0].tools] == ["edit", "read"]
    assert "there is no tool 'write'; there are: edit, read" in _shown(model.asked[1])
    assert (found.formatted, found.wrong, found.edits) == (False, False, 0)
    model = Playing(called("write", {"content": task.original}))
    found = await run_session(task, WRITE, 1, model, key=b"k")
    assert [tool.name for tool in model.asked[0].tools] == ["write", "read"]
    assert (found.fixed, found.formatted, found.writes) == (True, True, 1)


def _shown(request: ChatRequest) -> str:
    result = request.messages[-1].results[0][1]  # type: ignore[union-attr]
    return f"{result.output}{result.error_information}"


@pytest.mark.parametrize(
    ("path", "line", "name"),
    [
        ("a.cpp", "int& Box::at(int i) { return rows[i + 1]; }", "Box::at"),
        ("a.cpp", "auto f = [](int i) { return i + 1; };", ""),
        ("a.js", "const sum = (i) => i + 1;", "sum"),
        ("a.js", "a.sum = function (i) { return i + 1; };", "a.sum"),
        ("a.js", "x = { sum: (i) => i + 1 };", "sum"),
        ("a.js", "class A { sum = (i) => i + 1; }", "sum"),
        ("a.ts", "class A { sum = (i: number) => i + 1; }", "sum"),
        ("a.ts", "class A { sum(i: number) { return rows.map((r) => r + 1); } }", "sum"),
    ],
)
def test_the_function_around_a_fault_is_named(path: str, line: str, name: str) -> None:
    document = _document(line + "\n", path)
    fault = next(each for each in mutations(document) if each.kind == "off by one")
    prompt = task_of(1, document, fault).prompt
    assert ("at file level" if not name else f"the function `{name}`.") in prompt
