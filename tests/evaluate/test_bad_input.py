"""References and kernels of the worst kind: a clear verdict in time, and a judge that goes on."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Sandbox
from akg_tui.evaluate import Judge
from tests.evaluate.kernels import CPP, PLAIN, REFERENCE, kernel
from tests.judging import Evaluated, quick_task

TASK = replace(quick_task(), sandbox=Sandbox(memory_gb=2.0))
LIMIT_S = 60.0
RESULT = "return torch.softmax(x, dim=-1)"
INPUT = "return [torch.randn(64, 256)]"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (REFERENCE.replace("class Model(", "class Other("), "reference.py:1: no class Model"),
        (REFERENCE.replace("def forward(self, x)", "def forward(self)"), "reference.py:6: "),
        (REFERENCE.replace("dim=-1", "dim=7"), "reference.py:7: IndexError"),
        (REFERENCE.replace("dim=-1)", "dim=-1) + torch.rand(1)"), "not deterministic"),
        (REFERENCE.replace(RESULT, "return 'text'"), "forward() returned a str"),
        (REFERENCE.replace(RESULT, "a = [x]; a.append(a); return a"), "contains itself"),
        (REFERENCE.replace("torch.randn(64, 256)", "torch.zeros(1 << 31)"), "allocate"),
        (REFERENCE + "\nimport os; os._exit(0)\n", "ended with exit code 0 while loading"),
        (REFERENCE + "\nopen('/etc/shadow').read()\n", "PermissionError"),
    ],
    ids=["model", "signature", "raises", "random", "text", "nested", "large", "exits", "reads"],
)
def test_a_reference_that_can_not_be_used_is_an_error_that_says_why(
    evaluated: Evaluated, reference: str, says: str
) -> None:
    began = time.monotonic()
    found = evaluated(TASK, reference, PLAIN)
    assert time.monotonic() - began < LIMIT_S
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.REFERENCE), found
    assert says in found.message
    assert found.message.startswith("reference.py")


def test_a_reference_that_hangs_is_an_error_in_time(evaluated: Evaluated) -> None:
    hasty = replace(TASK, timing=replace(TASK.timing, build_timeout_s=1.0))
    found = evaluated(hasty, REFERENCE + "\nimport time; time.sleep(1000)\n", PLAIN)
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.REFERENCE), found
    assert found.message.startswith("reference.py")
    assert "no answer after 1 s of loading" in found.message


def test_a_reference_without_inputs_is_refused_with_the_reason(evaluated: Evaluated) -> None:
    reference = REFERENCE.replace(INPUT, "return []").replace("self, x", "self")
    reference = reference.replace(RESULT, "return torch.arange(8.0)")
    found = evaluated(TASK, reference, reference.replace("Model(", "ModelNew("))
    assert (found.outcome, found.failure) == (Outcome.ERROR, FailureKind.REFERENCE), found
    assert "get_inputs() returns nothing, so a kernel could return what it" in found.message


def test_ten_thousand_lines_of_compile_errors_are_told_by_the_first(evaluated: Evaluated) -> None:
    lines = "".join(f"int v{n} = ;\\n" for n in range(10_000))
    source = CPP.replace("#include <cmath>", lines).replace('("-O2",)', '("-fmax-errors=0",)')
    found = evaluated(TASK, REFERENCE, source.replace('r"""', '"""'))
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.BUILD), found
    assert "C++ line 2: " in found.message
    assert "expected primary-expression" in found.message
    assert len(found.detail) < 20_000


def test_a_disk_filler_ends_and_its_files_go_with_it(
    evaluated: Evaluated, tmp_path_factory: pytest.TempPathFactory
) -> None:
    filler = (
        "n = 0\nwhile True:\n    n += 1\n    with open(f'fill{n}', 'wb') as out:\n"
        "        os.posix_fallocate(out.fileno(), 0, 64 << 20)\n"
    )
    found = evaluated(TASK, REFERENCE, kernel("return x", before=filler))
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.BUILD), found
    if "private_folder" in found.sandbox:
        assert "No space left on device" in found.message
    assert not list(tmp_path_factory.getbasetemp().rglob("fill*"))


@pytest.mark.asyncio(loop_scope="session")
async def test_code_too_deep_or_odd_for_the_parser_is_a_syntax_failure(judge: Judge) -> None:
    deep = "x = " + "(" * 5_000 + ")" * 5_000
    for source in (deep, "\0", "", "\ud800", "class ModelNew" + "x" * 100_000):
        found = await judge.evaluate(source)
        assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.SYNTAX), source[:20]
