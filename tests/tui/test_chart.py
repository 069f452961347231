"""A chart that grows looks as if it had been drawn at once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from akg_tui.core.phases import Phase
from akg_tui.view.braille_chart import Chart, Plot, Series
from akg_tui.view.code_rows import Version, blame, carry, lineage
from akg_tui.view.diff import split_lines

from .script import FakeHandle


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(0.2, 9), st.integers(1, 40)), min_size=1, max_size=60
    ),
    st.sampled_from([(60, 12), (120, 30)]),
)
def test_a_chart_that_grew_is_the_chart_drawn_anew(
    points: list[tuple[int, float, int]], size: tuple[int, int]
) -> None:
    kinds = Series("✓", "verdict.keep"), Series("▪", "verdict.discard"), Series("✗", "verdict.fail")
    steps, chart, x = [(0, 1.0)], Chart(), 0
    for kind, y, far in points:
        x += far
        live = Series("◆", "chart.live")
        live.add(x + 1, y * 1.1, y, y * 1.2)
        if kind == 3:
            steps.append((x, y))
            kinds[0].add(x, y, y * 0.9, y * 1.1)
        else:
            kinds[kind].add(x, None if kind == 2 else y, y * 0.9, y * 1.3)
        shown = (*kinds, live) if kind % 2 else kinds
        plot = Plot(shown, tuple(steps), x + 1, "×", "", (x, y * 0.99, y * 1.01))
        assert chart.draw(plot, *size) == Chart().draw(plot, *size)


few_lines = st.lists(st.sampled_from("abcdef"), max_size=12)


def test_each_line_belongs_to_the_item_that_wrote_it() -> None:
    handle = FakeHandle().to_phase(Phase.EVAL, settled=7)
    versions = lineage(handle.state, handle.state.work_blob)
    assert [version.item for version in versions] == ["", "p1", "p2", "p3", "p7", "p8"]
    owners = blame(versions, lambda blob: split_lines(handle.kernel(blob)))
    lines = split_lines(handle.kernel(handle.state.work_blob))
    wrote = {line.split(" =")[0]: versions[n].item for line, n in zip(lines, owners, strict=True)}
    assert (wrote["FLAGS"], wrote["EXP"], wrote["LANES"]) == ("p1", "p7", "p8")
    assert {versions[n].item for n in owners} == {"", "p1", "p7", "p8"}


def test_what_was_discarded_wrote_nothing() -> None:
    handle = FakeHandle().work()
    assert handle.state.best is not None
    versions = lineage(handle.state, handle.state.best.blob)
    assert "p4" not in [version.item for version in versions]
    assert versions[-1] == Version(handle.state.best.blob, "p7", 1.58)


@given(st.lists(few_lines, min_size=1, max_size=5))
def test_every_line_has_an_owner_that_had_that_line(texts: list[list[str]]) -> None:
    versions = [Version(str(n), f"p{n}", None) for n in range(len(texts))]
    owners = blame(versions, lambda blob: texts[int(blob)])
    assert len(owners) == len(texts[-1])
    for line, owner in zip(texts[-1], owners, strict=True):
        assert line in texts[owner]


@given(few_lines, few_lines)
def test_a_line_that_was_not_there_belongs_to_the_newcomer(old: list[str], new: list[str]) -> None:
    owners = carry([0] * len(old), old, new, 1)
    assert owners.count(0) <= len(old)
    for line, owner in zip(new, owners, strict=True):
        assert owner == 1 or line in old
        if line not in old:
            assert owner == 1
