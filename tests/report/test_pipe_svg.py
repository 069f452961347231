"""The timelines of a compile report as SVG: a lane for each pipe, and no text that breaks out."""

import xml.etree.ElementTree as ET

from msgspec.structs import replace

from akg_tui.evaluate.evidence.compile_report import Compiled, CompileReport, Launch
from akg_tui.report.pipe_svg import WIDTH, draw_timelines

from ..evaluate.recorded_hivm import texts

SVG = "{http://www.w3.org/2000/svg}"
NPU = "Ascend910B1"
ADD = Launch(
    kernel="<script>add",
    line=1,
    arguments=(),
    constants=(),
    grid=(128,),
    values=(None, None, None, 1 << 22),
    compiled=(Compiled(arch=NPU, hivm=texts()["add_loop"]),),
)
GATHER = replace(
    ADD,
    kernel="gather",
    grid=(64,),
    values=(None, None, None, 1 << 16),
    compiled=(Compiled(arch=NPU, hivm=texts()["gather"]),),
)


def test_each_pipe_has_a_lane_with_its_operations() -> None:
    drawn = draw_timelines(CompileReport(launches=(ADD, GATHER)))
    assert drawn == draw_timelines(CompileReport(launches=(ADD, GATHER)))
    root = ET.fromstring(drawn)
    told = [each.text for each in root.iter(f"{SVG}text")]
    assert "<script>add on Ascend910B1" in told
    assert [each for each in told if each in ("MTE2", "V", "MTE3", "S")] == [
        "MTE2", "V", "MTE3", "MTE2", "V", "MTE3", "S",
    ]  # fmt: skip
    bars = list(root.iter(f"{SVG}rect"))
    assert sum(bar.get("class") == "lane" for bar in bars) == 7
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert any(title.startswith("load_gm_to_ubuf_1d_float: ") for title in titles)
    for bar in bars:
        assert 0 <= float(bar.get("x", "")) <= WIDTH
        assert float(bar.get("x", "")) + float(bar.get("width", "")) <= WIDTH
    assert any("by a model and not measured" in (text or "") for text in told)


def test_nothing_is_drawn_without_an_estimate() -> None:
    failed = replace(ADD, compiled=(Compiled(arch=NPU, failed="ub overflow"),))
    assert draw_timelines(CompileReport(launches=(failed,))) == ""
