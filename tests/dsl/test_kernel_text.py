"""Untrusted text and untrusted source, before anything is run or shown."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from akg_tui.core.sanitize import strip_escapes, strip_to_line
from akg_tui.core.task import Task
from akg_tui.dsl.kernel_text import SOURCE_LIMIT, ParsedKernel, syntax_fault
from akg_tui.evaluate import static_guard
from tests.evaluate.kernels import CPP, PLAIN, SLOW


@given(st.text(st.characters(codec=None), max_size=300))
def test_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    left = strip_escapes(text)
    assert not [c for c in left if unicodedata.category(c) in {"Cc", "Cs"} and c not in "\n\t"]
    assert strip_escapes(left) == left


@given(st.text("ab\n\t é漢", max_size=300))
def test_plain_text_is_left_alone(text: str) -> None:
    assert strip_escapes(text) == text


@pytest.mark.parametrize(
    "code",
    ["\x1b[31m", "\x1b[2J", "\x1b]0;owned\x07", "\x1b]8;;http://x\x1b\\", "\x1bP1$q\x1b\\",
     "\x9b31m", "\x9d0;owned\x9c", "\x1b(B", "\x1bc", "\u202e", "\u200b", "\ufeff", "\x00", "\x08"],
)  # fmt: skip
def test_an_escape_code_goes_whole(code: str) -> None:
    assert strip_escapes(f"before{code}after") == "beforeafter"


def test_of_long_text_head_and_tail_are_kept() -> None:
    left = strip_escapes("start" + "x" * 10_000 + "end", limit=100)
    assert len(left) == 100
    assert left.startswith("start")
    assert left.endswith("end")
    assert "[…]" in left


def test_a_hostile_text_is_cleaned_in_no_time() -> None:
    start = time.monotonic()
    strip_escapes("\x1b]" * 50_000)
    strip_escapes("\x1b[" + ";" * 100_000)
    assert time.monotonic() - start < 2


@given(st.text(max_size=2000))
def test_one_line_is_one_short_line(text: str) -> None:
    line = strip_to_line(text)
    assert len(line) <= 400
    assert "\n" not in line


@pytest.mark.parametrize(
    "source",
    [
        "class ModelNew: pass",
        "from m import ModelNew",
        "from m import Other as ModelNew",
        "def make(): pass\nModelNew = make()",
        "try:\n    import a\nexcept ImportError:\n    class ModelNew: pass",
        "if True:\n    class ModelNew: pass",
    ],
)
def test_a_file_that_binds_model_new_may_be_a_kernel(source: str) -> None:
    assert syntax_fault(source) is None


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("x = 1\ny = (\n", "line 2: '(' was never closed"),
        ("class Other: pass", "no class ModelNew"),
        ("class A:\n    class ModelNew: pass", "no class ModelNew"),
        ("x = 1\0", "null byte"),
        ("x = '\ud800'; class", "can't be written as UTF-8"),
        ("(" * 5000, "line 1: too many nested parentheses"),
        ("-" * 100_000 + "1", ""),
        ("#" * (SOURCE_LIMIT + 1), "the limit is"),
        ("\n\nx" + ".b" * 300, "line 3: the code is nested deeper"),
        ("if a: pass\n" + "elif b: pass\n" * 300, "the code is nested deeper"),
        ("def f(): pass\n" * 20_000, "syntax nodes"),
    ],
    ids=lambda text: text[:20],
)
def test_a_file_that_is_no_kernel_is_told_why(source: str, says: str) -> None:
    fault = syntax_fault(source)
    assert fault is not None
    assert says in fault


PIECES = (
    "x", "ModelNew", "torch.nn", "(", ")", ":", "\n", "    ", "lambda ", "\0", "'", '"""', "é",
    "漢", "\ud800", "\u202e", "9" * 5000, "[0]" * 200, ".b" * 200, "not " * 200, "def f(x):\n" * 50,
    "import reference\n", "torch.nn.Module.forward = eval\n", "f'{x}'", "{**x}", "*x, ", "@", "\\",
)  # fmt: skip


def mutated(source: str, rng: random.Random) -> str:
    """Return a kernel with a few parts cut out, doubled, moved or replaced."""
    for _ in range(rng.randrange(1, 6)):
        a, b = sorted(rng.randrange(len(source) + 1) for _ in range(2))
        b = min(b, a + rng.choice((0, 1, 5, 80)))
        piece = rng.choice((*PIECES, source[a:b] * 2, source[b : b + 40]))
        source = source[:a] + piece + source[b:]
    return source


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(max_examples=int(os.environ.get("MUTATED", "300")), deadline=5000)
@given(st.randoms(use_true_random=False), st.sampled_from([PLAIN, SLOW, CPP]))
def test_no_mutated_kernel_crashes_or_stalls_a_static_check(rng: random.Random, of: str) -> None:
    source = mutated(of, rng)
    if syntax_fault(source) is None:
        findings = static_guard.findings(source, Task(op="x"))
        assert not any("static check failed" in each.reason for each in findings)


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ParsedKernel, "name", lambda *_: 1 / 0)
    (found,) = static_guard.findings(PLAIN, Task(op="x"))
    assert found.refused
    assert found.reason.endswith("ZeroDivisionError")


LONG_TEXTS = """
import resource
from akg_tui.core.kernel.knobs import find_knobs
from akg_tui.dsl.torch_headers import named_in

resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
lines = "\\n" * 500_000
assert named_in(f"torch.utils.cpp_extension.load_inline(extra_cflags=flags){lines}") == []
assert find_knobs([f"A = 1{' ' * 500_000}# tune: [1", "A = 1" + 50_000 * "# tune: ["]) == ()
"""


def test_the_longest_text_takes_no_time_that_grows_with_its_square() -> None:
    # In a process, because a pattern can't be interrupted: the system ends it.
    subprocess.run([sys.executable, "-c", LONG_TEXTS], check=True)
