"""`akg-tui bench hardware`, run whole on the device of the tests, with few kernels and trials."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from akg_tui.core.kernel.kernel_files import files_of
from akg_tui.core.task import Task, Timing
from akg_tui.dsl.compilers import find_compiler
from akg_tui.evaluate import Judge
from akg_tui.resources import sample_names
from akg_tui.store.reference_constants import with_constants
from akg_tui.store.task_folder import TaskFolder
from benchmarks.hardware import command, prove
from benchmarks.hardware.cheats import CHEATS
from benchmarks.hardware.hostile import HOSTILE
from benchmarks.hardware.kernels import HONEST, PLAIN, SOFTMAX, TASK, Refused
from benchmarks.hardware.page import page
from benchmarks.hardware.prove import Checked, Proof, Prover, Rate, proof_of
from benchmarks.lab.device import hardware
from tests.device.conftest import Judges

pytestmark = pytest.mark.skipif(not find_compiler(), reason="the device is built with a compiler")

OVERWRITTEN = next(each for each in CHEATS if each.name == "the input overwritten")
ILLEGAL = next(each for each in HOSTILE if each.name == "an illegal address")
NO_CHEAT = Refused("an honest kernel taken for a cheat", PLAIN, OVERWRITTEN.fails)
RATE = Rate(0.0, 100, 1, 0, 0.0, 0.05, 1.0, 0.99, 1.01, 2.0)


def test_one_command_writes_what_the_machine_has_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other tests of this folder have the device in the place of `cuda`; here of `ascend`."""
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "5,6")
    monkeypatch.setattr(prove, "catalogue", lambda: [HONEST[0], OVERWRITTEN, ILLEGAL])
    monkeypatch.setattr(prove, "TIMING", Timing(budget_s=0.1))
    monkeypatch.setattr(prove, "REFERENCE", prove.REFERENCE.replace("320, 1024", "20, 64"))
    where = ["--target", "ascend", "--out", str(tmp_path / "out")]
    code = hardware.run(["--trials", "1", *where])
    proof = msgspec.json.decode((tmp_path / "out" / "hardware.json").read_bytes(), type=Proof)
    assert code == (0 if proof.held else 1)
    assert (proof.error, proof.target, proof.device) == ("", "ascend", "labdev")
    assert [each.right for each in proof.verdicts] == [True, True, True]
    assert proof.equal is not None
    assert (proof.equal.trials, proof.equal.true_gain) == (1, 0.0)
    assert proof.gain is not None
    assert (proof.gain.trials, proof.gain.true_gain) == (1, 0.1)
    assert f"| 10% | {proof.gain.kept} of 1 |" in (tmp_path / "out" / "hardware.md").read_text()


class OnSharedJudges(Prover):
    """Asks judges that run already."""

    judges: Judges

    @contextlib.asynccontextmanager
    async def _judge(self, task: Task, reference: str) -> AsyncIterator[Judge]:
        yield self.judges[reference]


@pytest.mark.asyncio(loop_scope="session")
async def test_verdicts_and_samples_are_told(judges: Judges, tmp_path: Path) -> None:
    proof = proof_of("cuda", "labdev")
    lines: list[str] = []
    prover = OnSharedJudges(proof, modules=(), scratch=tmp_path, tell=lines.append)
    prover.judges = judges
    await prover.verdicts([HONEST[0], OVERWRITTEN, NO_CHEAT])
    await prover.sample(
        TaskFolder(tmp_path / "softmax", TASK, "", SOFTMAX, files_of(PLAIN, "kernel.py"))
    )
    assert [each.right for each in proof.verdicts] == [True, True, False]
    assert [(each.name, each.found) for each in proof.samples] == [("softmax", "correct")]
    assert proof.samples[0].over_eager is not None
    assert proof.environment["torch"]
    text = page(proof)
    assert "| honest | 1 | 1 |" in text
    assert "| cheat | 1 | 2 |" in text
    assert f"WRONG: cheat, {NO_CHEAT.name}: correct" in text
    assert len(lines) == 4


def test_a_proof_holds_if_verdicts_and_rates_do() -> None:
    right = Checked("plain", "honest", right=True, found="correct", seconds=1.0)
    gain = msgspec.structs.replace(RATE, true_gain=0.1, kept=95)

    def held(**other: object) -> bool:
        of = {"verdicts": [right], "equal": RATE, "gain": gain} | other
        return Proof(target="cuda", device="labdev", judge="", **of).held  # type: ignore[arg-type]

    assert held()
    assert not held(error="RuntimeError: lost")
    assert not held(verdicts=[right, msgspec.structs.replace(right, right=False)])
    assert not held(equal=msgspec.structs.replace(RATE, kept=2))
    assert not held(equal=msgspec.structs.replace(RATE, failed=1))
    assert not held(gain=msgspec.structs.replace(gain, kept=94))
    assert not held(gain=None)
    assert not held(samples=[prove.Sampled("softmax_triton", "failed wrong")])


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_samples_of_a_proof_are_those_in_triton() -> None:
    made = command._samples("cuda")
    names = {each.path.name for each in made}
    for each in made:
        text = with_constants(each.reference, each.task.constants())
        assert all(
            f"{name} = {size}\n" in text for name, size in command.SIZES[each.path.name].items()
        )
    assert names == {name for name in sample_names() if name.endswith("_triton")}
    assert len(names) >= 6
