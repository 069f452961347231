"""The compile report for Ascend has the estimate, what binds, and a picture of the pipes."""

import json
import math

import msgspec
import pytest

from akg_tui.evaluate.evidence.ascend.pipe_model import (
    Interval,
    LaunchEstimate,
    Row,
    Timeline,
)
from akg_tui.evaluate.evidence.ascend.pipe_picture import picture, shade, shares
from akg_tui.evaluate.evidence.compile_report import (
    Compiled,
    CompileReport,
    Launch,
    as_lines,
    estimates_us,
    fields,
)

from .recorded_hivm import texts

NPU = "Ascend910B1"


def launch(name: str, *grid: int, values: tuple[int | None, ...], launches: int = 1) -> Launch:
    return Launch(
        kernel=name,
        line=3,
        arguments=(),
        constants=(),
        grid=grid,
        launches=launches,
        values=values,
        compiled=(Compiled(arch=NPU, hivm=texts()[name]),),
    )


ADD = launch("add_loop", 128, values=(None, None, None, 1 << 22), launches=2)
GATHER = launch("gather", 64, values=(None, None, None, 1 << 16))


def test_the_report_has_the_estimate_by_launch_and_of_all() -> None:
    tried = launch("softmax_1024", 48, values=(None, None, 1024, 1024), launches=0)
    report = CompileReport(launches=(ADD, GATHER, tried))
    told = json.loads(msgspec.json.encode(fields(report, "kernel.py")))
    add, gather, only_tried = (kernel["arches"][0] for kernel in told["kernels"])
    assert only_tried["estimate_us"] > 0
    assert told["estimate_us"] == {
        NPU: pytest.approx(2 * add["estimate_us"] + gather["estimate_us"], abs=0.01)
    }
    found = add["estimate"]
    assert "no measurement" in found["note"]
    assert found["binds"].startswith("MTE2: loads from global memory")
    assert (found["programs"], found["cores"], found["waves"]) == (128, 48, 3)
    assert list(found["busy"]) == ["MTE2", "MTE3", "V"]
    timeline = add["estimate_timeline"]
    assert [row["pipe"] for row in timeline["rows"]] == ["MTE2", "V", "MTE3"]
    assert not timeline["whole_program"]
    assert all(
        timeline["start_us"] <= start <= end <= timeline["end_us"]
        for row in timeline["rows"]
        for start, end in row["intervals_us"]
    )


def test_the_lines_name_an_estimate_one_and_draw_the_pipes() -> None:
    lines = as_lines(CompileReport(launches=(ADD,)), "kernel.py")
    [head] = [line for line in lines if "estimate" in line]
    assert "by a model and not measured: 128 programs of" in head
    rows = {line.split()[0]: line for line in lines if line.rstrip().endswith("%")}
    assert set(rows) == {"MTE2", "V", "MTE3"}
    assert rows["MTE2"].count("█") > 3 * rows["V"].count("█")
    assert max(map(len, lines[3:])) <= 130


def test_a_model_reads_the_busy_shares_without_a_picture() -> None:
    lines = as_lines(CompileReport(launches=(ADD,)), "kernel.py", pictures=False)
    assert all(line.isascii() for line in lines)
    [busy] = [line.strip() for line in lines if "busy: " in line]
    assert busy.startswith("busy: MTE2 8")
    assert [each.split()[-2] for each in busy.split(", ")] == ["MTE2", "MTE3", "V"]


def test_a_program_that_waits_in_vain_has_no_estimate() -> None:
    text = texts()["softmax_1024"]
    start = text.index("hivm.hir.set_flag[<PIPE_MTE2>, <PIPE_V>")
    stuck = text[:start] + text[text.index("\n", start) :]
    made = msgspec.structs.replace(
        launch("softmax_1024", 48, values=(None, None, 1024, 1024)),
        compiled=(Compiled(arch=NPU, hivm=stuck),),
    )
    report = CompileReport(launches=(made,))
    told = json.dumps(fields(report, "kernel.py"))
    assert "which nothing sets" in told
    assert "Infinity" not in told
    assert "estimate_us" not in told
    assert any("no estimate: V of a vector core" in line for line in as_lines(report, "kernel.py"))


def test_a_program_that_cannot_be_read_and_a_gpu_have_no_estimate() -> None:
    bad = msgspec.structs.replace(GATHER, compiled=(Compiled(arch=NPU, hivm="no module"),))
    gpu = msgspec.structs.replace(GATHER, compiled=(Compiled(arch="sm_90", warps=4),))
    for made in (bad, gpu):
        report = CompileReport(launches=(made,))
        assert estimates_us(report) == {}
        assert "estimate" not in json.dumps(fields(report, "kernel.py"))
        assert not any("estimate" in line for line in as_lines(report, "kernel.py"))


def drawn(*rows: Row, start: float = 0.0, end: float = 8.0) -> LaunchEstimate:
    busy = {row.pipe: 0.5 for row in rows}
    return LaunchEstimate(name="k", us=1.0, busy=busy, timeline=Timeline(start, end, True, rows))


def test_a_column_tells_how_much_of_its_time_a_pipe_works() -> None:
    row = Row("vector", "V", (Interval(0.0, 1.5), Interval(3.0, 3.25), Interval(7.0, 9.0)))
    assert shares(row, 0.0, 8.0, 8) == [1.0, 0.5, 0.0, 0.25, 0.0, 0.0, 0.0, 1.0]
    assert shares(row, 3.0, 3.25, 2) == [1.0, 1.0]
    assert "".join(shade(share) for share in (0.0, 0.01, 0.25, 0.5, 0.8, 1.0)) == " ░░▒▓█"


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_picture_fits_its_width_also_in_ascii(columns: int, ascii_only: bool) -> None:
    rows = (
        Row("cube", "MTE2", (Interval(0.0, 4.0),)),
        Row("vector", "V", (Interval(4.0, 8.0),)),
    )
    lines = picture(drawn(*rows), columns, ascii_only=ascii_only)
    assert len(lines) == 3
    assert max(map(len, lines)) <= columns
    assert all(line.isascii() for line in lines) is ascii_only
    first, second = (line.split("|")[1] for line in lines[1:])
    half = len(first) // 2
    # The column in the middle may belong to both.
    assert first[half + 1 :].strip() == second[: half - 1].strip() == ""
    assert " " not in first[:half] + second[half + 1 :]


def test_nothing_is_drawn_without_a_timeline() -> None:
    assert picture(LaunchEstimate(name="k", us=math.inf), 80) == []
    assert picture(drawn(), 80) == []
