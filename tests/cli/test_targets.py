"""Tasks that this machine can't run, and tasks that it can verify but not time."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace

from akg_tui.cli import main, parser
from akg_tui.cli.evaluate_kernel import _print_measurement, seen_of
from akg_tui.core import events as ev
from akg_tui.core.measurement import InputError, Interval, Measurement, Metric, Outcome
from akg_tui.core.phases import Mode
from akg_tui.core.task import Backend, Dsl
from akg_tui.dsl.adapters.triton import INTERPRETED
from akg_tui.engine.run_service import create_run
from akg_tui.evidence import asking
from akg_tui.evidence.compile_report import Compiled, CompileReport, Launch
from akg_tui.headless.watched_run import narrate
from akg_tui.resources import sample
from akg_tui.store.task_folder import load_task
from tests.cli.test_cli import here, refused
from tests.evaluate.triton_kernels import NEVER_LAUNCHED

TRITON = "softmax_triton"
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is for Linux"
)
needs_no_gpu = pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="there is a GPU")


@needs_triton
def test_eval_verifies_a_kernel_in_triton_and_makes_no_claim_of_speed(tmp_path: Path) -> None:
    folder = shutil.copytree(sample(TRITON), tmp_path / "task")
    with (folder / "task.toml").open("a") as toml:
        toml.write('\n[correctness]\ntrials = 1\nfixed_shape = true\nvalues = "drawn"\n')
    done = here("eval", folder, "--json", "--compile-report", "sm_90")
    assert done.returncode == 0, done
    found = json.loads(done.stdout)
    assert found["outcome"] == "correct"
    assert found["timed"] is False
    assert found["message"] == INTERPRETED
    assert found["ratio"] is found["candidate_ms"] is found["baseline_ms"] is None
    (launch,) = found["compile_report"]["kernels"]
    assert (launch["kernel"], launch["grid"], launch["launches"]) == ("softmax_rows", [24], 1)
    assert launch["constants"] == ["ROWS_EACH=1", "BLOCK=128"]
    (compiled,) = launch["arches"]
    assert (compiled["arch"], compiled["threads"], compiled["spilled_bytes"]) == ("sm_90", 128, 0)
    assert 0 < compiled["registers"] <= 64
    assert compiled["global_loads_by_bits"]
    assert compiled["instructions"] > 50


@needs_triton
def test_a_kernel_that_only_a_gpu_can_run_is_compiled_and_not_called_wrong(tmp_path: Path) -> None:
    text = (sample(TRITON) / "kernel.py").read_text("utf-8")
    rows = text.splitlines(keepends=True)
    at = next(number for number, row in enumerate(rows) if "first = tl.program_id" in row)
    rows.insert(at, "    tl.store(y_ptr, (tl.extra.cuda.globaltimer() % 1).to(tl.float32))\n")
    kernel = tmp_path / "kernel.py"
    kernel.write_text("".join(rows))
    done = here("eval", sample(TRITON), "--kernel", kernel, "--compile-report", "sm_90")
    assert done.returncode == 2, done
    first, *rest = done.stdout.splitlines()
    told = "could not run here: Triton's interpreter has no inline_asm"
    assert first == f"error: kernel.py:{at + 1}: {told}"
    assert any(line.startswith("  sm_90") and "registers" in line for line in rest), done.stdout


@pytest.mark.parametrize(
    ("task", "arches", "says"),
    [
        (TRITON, "sm_90,sm_42", "'sm_42' is not one of sm_80, sm_86"),
        (TRITON, "", "'' is not one of sm_80, sm_86"),
        (
            "rms_norm",
            "sm_90",
            "--compile-report is for kernels in cuda_cpp and triton; this task's DSL is cpp",
        ),
    ],
)
def test_a_compile_report_that_cannot_be_made_is_refused_before_anything_starts(
    task: str, arches: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(["eval", str(sample(task)), "--compile-report", arches])
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert says in capsys.readouterr().err


@needs_triton
@needs_no_gpu
def test_a_task_for_a_gpu_has_a_report_where_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(sample(TRITON), tmp_path / "task")
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace('backend = "cpu"', 'backend = "cuda"'))
    assert main(["eval", str(folder), "--json", "--compile-report", "sm_90"]) == 2
    told = capsys.readouterr()
    (launch,) = json.loads(told.out)["compile_report"]["kernels"]
    assert launch["arches"][0]["registers"] > 0
    assert told.err.startswith('akg-tui: not evaluated: backend = "cuda" needs an NVIDIA GPU')


@needs_triton
def test_a_kernel_that_cannot_run_on_the_arch_is_not_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(sample(TRITON), tmp_path / "task")
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace('backend = "cpu"', 'backend = "cuda"'))

    async def too_large(*_: object) -> CompileReport:
        compiled = Compiled(arch="sm_80", warps=4, shared=200_000)
        launch = Launch(
            kernel="k", line=5, arguments=(), constants=(), grid=(1,), compiled=(compiled,)
        )
        return CompileReport(compiler="Triton 3", launches=(launch,))

    monkeypatch.setattr(asking, "compile_report", too_large)
    assert main(["eval", str(folder), "--compile-report", "sm_80"]) == 1
    told = capsys.readouterr()
    assert "sm_80: does not run: out of shared memory" in told.out
    begins = "not evaluated: it runs on none of sm_80: k cannot run on sm_80: out of shared memory"
    assert told.err.startswith(begins)


@needs_triton
def test_a_kernel_that_launches_nothing_has_no_compile_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(NEVER_LAUNCHED)
    words = ["eval", str(sample(TRITON)), "--kernel", str(kernel), "--compile-report", "sm_90"]
    assert main(words) == 2
    assert capsys.readouterr() == (
        "", "akg-tui: --compile-report: forward launches no kernel of the task's DSL\n"
    )  # fmt: skip


def test_eval_says_in_words_that_nothing_was_timed(capsys: pytest.CaptureFixture[str]) -> None:
    errors = (
        InputError("as drawn", 1e-7, 2e-6, dtype="float32"),
        InputError("as drawn", 0.0, 0.0, dtype="int64"),
        InputError("zeros", note="not tried: no time left"),
        InputError("large values", 3e-5, 2e-6, dtype="float32"),
        InputError("ones", note="not tried: refused"),
        InputError("NaN", note="not tried: no time left"),
    )
    metrics = (Metric("Mean R", 0.5, 0.75), Metric("rows", note="not a finite number"))
    found = Measurement(
        outcome=Outcome.CORRECT, message=INTERPRETED, timed=False, errors=errors, metrics=metrics
    )
    _print_measurement(found, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "correct: verified only: Triton's interpreter says nothing about time",
        "Mean R: 0.5 – 0.75",
        "rows: not a finite number",
        "kinds of input that it is right on: 1; nearest to its limit:",
        "  float32 1e-07 of 2e-06: as drawn",
        "  int64 equal: as drawn",
        "large values: error 3e-05 > 2e-06",
        "zeros; NaN: not tried: no time left",
        "ones: not tried: refused",
    ]


def test_eval_says_what_a_tolerance_is_derived_from(capsys: pytest.CaptureFixture[str]) -> None:
    origin = "the floor of float32"
    found = Measurement(outcome=Outcome.CORRECT, tolerance=2e-6, tolerance_from=origin)
    _print_measurement(found, as_json=False)
    assert capsys.readouterr().out.splitlines()[1:] == ["tolerance 2e-06: the floor of float32"]


def test_eval_says_what_gain_is_excluded(capsys: pytest.CaptureFixture[str]) -> None:
    found = Measurement(
        outcome=Outcome.CORRECT, deviation=0.042, detectable=0.118, excluded=0.0231,
        ratio=Interval(1.0, 0.96, 1.04, 0.99),
    )  # fmt: skip
    assert seen_of(found) == (
        "pairs of processes differ by 4.2 %; a gain above 2.4 % is excluded at 98 %"
    )
    noisy = replace(found, deviation=3.0, detectable=45765952.294, excluded=4576595.1)
    assert seen_of(noisy) == (
        "the machine was too busy to see a gain of 10 %; pairs of processes differ by 300.0 %"
    )
    faster = replace(found, ratio=Interval(2.0, 1.9, 2.1, 0.99), excluded=1.07)
    assert seen_of(faster) == "pairs of processes differ by 4.2 %"
    _print_measurement(replace(found, ratio=None, excluded=None), as_json=False)
    assert capsys.readouterr().out.splitlines()[1:] == ["pairs of processes differ by 4.2 %"]


@needs_triton
def test_what_cannot_be_timed_is_not_tuned(tmp_path: Path) -> None:
    folder = shutil.copytree(sample(TRITON), tmp_path / "task")
    done = here("tune", folder, "--headless")
    refused(done, str(folder), INTERPRETED, f"akg-tui eval {folder}")
    assert not (folder / "runs").exists()


@needs_triton
def test_a_run_that_cannot_be_timed_here_is_not_resumed(tmp_path: Path) -> None:
    folder = load_task(shutil.copytree(sample(TRITON), tmp_path / "task"))
    run = create_run(folder, folder.task, Mode.AUTO)
    run.close()
    refused(here("resume", run.path, "--headless"), INTERPRETED)


def test_a_run_without_a_screen_says_that_the_first_kernel_was_verified_only() -> None:
    found = Measurement(outcome=Outcome.CORRECT, message=INTERPRETED, timed=False)
    event = ev.EvalFinished(purpose=ev.Purpose.BASELINE, attempt=0, measurement=found)
    (line,) = narrate([ev.Record(1, 0.0, event)])
    assert line == f"baseline  correct; {INTERPRETED}"


@needs_triton
def test_a_sample_that_cannot_be_timed_is_no_demo(tmp_path: Path) -> None:
    refused(here("demo", TRITON, "--headless", cwd=tmp_path), INTERPRETED, "akg-tui eval ")
    assert not list(tmp_path.iterdir())


def test_new_offers_every_backend_and_dsl_that_a_task_may_have() -> None:
    words = ["new", "t", "--reference", "r", "--kernel", "k"]
    for backend in get_args(Backend):
        assert parser().parse_args([*words, "--backend", backend]).backend == backend
    for dsl in get_args(Dsl):
        assert parser().parse_args([*words, "--dsl", dsl]).dsl == dsl
