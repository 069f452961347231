"""References and kernels of the worst kind: a clear verdict in time, and a judge that goes on."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from msgspec.structs import replace

from akg_tui.core.measurement import FailureKind, Outcome
from akg_tui.core.task import Sandbox
from akg_tui.evaluate import Judge
from tests.evaluate.conftest import Evaluated, quick_task
from tests.evaluate.kernels import CPP, PLAIN, REFERENCE, kernel

MODULE = pytest.mark.asyncio(loop_scope="module")

TASK = replace(quick_task(), sandbox=Sandbox(memory_gb=2.0))
LIMIT_S = 60.0
RESULT = "return torch.softmax(x, dim=-1)"
INPUT = "return [torch.randn(64, 256)]"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (REFERENCE.replace(RESULT, "return 'text'"), "forward() returned a str"),
        (REFERENCE.replace(RESULT, "return x, {'a': [x, (x,)]}"), "forward() returned a tuple"),
        (REFERENCE.replace("torch.randn(64, 256)", "torch.zeros(1 << 31)"), "allocate"),
        (REFERENCE + "\nimport os; os._exit(0)\n", "ended with exit code 0 while loading"),
        (REFERENCE + "\nopen('/etc/shadow').read()\n", "PermissionError"),
    ],
    ids=["text", "nested", "large", "exits", "reads"],
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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def strict(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Judge]:
    async with Judge(TASK, REFERENCE, tmp_path_factory.mktemp("strict")) as judge:
        yield judge


@MODULE
async def test_ten_thousand_lines_of_compile_errors_are_told_by_the_first(strict: Judge) -> None:
    lines = "".join(f"int v{n} = ;\\n" for n in range(10_000))
    source = CPP.replace("#include <cmath>", lines).replace('("-O2",)', '("-fmax-errors=0",)')
    found = await strict.evaluate(source.replace('r"""', '"""'))
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.BUILD), found
    assert "C++ line 2: " in found.message
    assert "expected primary-expression" in found.message
    assert len(found.detail) < 20_000


@MODULE
async def test_a_disk_filler_ends_and_its_files_go_with_it(strict: Judge) -> None:
    filler = (
        "n = 0\nwhile True:\n    n += 1\n    with open(f'fill{n}', 'wb') as out:\n"
        "        os.posix_fallocate(out.fileno(), 0, 64 << 20)\n"
    )
    found = await strict.evaluate(kernel("return x", before=filler))
    assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.BUILD), found
    if "private_folder" in found.sandbox:
        assert "No space left on device" in found.message
    children = strict._scratch / "children"
    assert not [path for child in children.iterdir() for path in child.rglob("*")]


@MODULE
async def test_code_too_deep_or_odd_for_the_parser_is_a_syntax_failure(strict: Judge) -> None:
    deep = "x = " + "(" * 5_000 + ")" * 5_000
    for source in (deep, "\0", "", "\ud800", "class ModelNew" + "x" * 100_000):
        found = await strict.evaluate(source)
        assert (found.outcome, found.failure) == (Outcome.FAILED, FailureKind.SYNTAX), source[:20]
