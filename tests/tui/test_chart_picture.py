"""The chart as a picture: its pixels, the codes that send it, and a terminal that takes them."""

from __future__ import annotations

import base64
import re
import struct
import sys
import zlib
from pathlib import Path

import pytest

from akg_tui.tui import textual_internals
from akg_tui.tui.export import text
from akg_tui.tui.panes.chart import PICTURE, ChartPane
from akg_tui.tui.terminal_pictures import may_show
from akg_tui.view.controls.preferences import Preferences
from akg_tui.view.glyphs import VERDICT
from akg_tui.view.pictures import kitty
from akg_tui.view.pictures.bitmap import Bitmap
from akg_tui.view.pictures.chart_picture import _SHAPES, GROUND, MOST_PIXELS, ROLES, chart_png
from akg_tui.view.run_chart import LABEL, AttemptSeries

from .script import FakeHandle
from .stage import Stage, on_stage
from .terminal import PtyTerminal

OK, KITTY, LAST = "\x1b_Gi=31;OK\x1b\\", "\x1bP>|kitty(0.35.2)\x1b\\", "\x1b[?62;c"
SENT = re.compile(
    r"\x1b_Ga=T,U=1,q=2,f=100,t=d,i=(\d+),c=(\d+),r=(\d+),m=([01]);([^\x1b]*)\x1b\\"
    r"((?:\x1b_Gq=2,m=[01];[^\x1b]*\x1b\\)*)"
)


def pixels(png: bytes) -> tuple[int, list[bytes]]:
    """Return the width of a picture, and its rows as the places of their colours."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, parts = 8, {}
    while at < len(png):
        (size,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", png, at + 8 + size)[0] == zlib.crc32(kind + data)
        parts[kind] = data
        at += size + 12
    wide, high, *form = struct.unpack(">IIBBBBB", parts[b"IHDR"])
    assert form == [8, 3, 0, 0, 0]
    assert parts[b"tRNS"] == b"\0"
    raw = zlib.decompress(parts[b"IDAT"])
    rows = [raw[y * (wide + 1) : (y + 1) * (wide + 1)] for y in range(high)]
    assert all(row[0] == 0 and max(row) * 3 < len(parts[b"PLTE"]) for row in rows)
    return wide, [row[1:] for row in rows]


def sent(written: str) -> tuple[int, int, int, bytes]:
    """Return number, columns, rows and PNG of the last picture that was sent."""
    *_, (number, columns, rows, _, first, others) = SENT.findall(written)
    data = first + "".join(re.findall(r";([^\x1b]*)", others))
    return int(number), int(columns), int(rows), base64.b64decode(data)


def test_a_bitmap_is_a_png_and_cuts_what_lies_outside() -> None:
    drawn = Bitmap(4, 3)
    drawn.box(-5, 1, 1, 9, 1)
    drawn.stroke((3, 0), (3, 9), 2, 1)
    wide, rows = pixels(drawn.png([(1, 2, 3), (4, 5, 6)]))
    assert wide == 4
    assert rows == [b"\0\0\0\2", b"\1\1\0\2", b"\1\1\0\2"]


def test_a_plot_is_drawn_on_the_scale_of_the_dots_and_bounded() -> None:
    series = AttemptSeries()
    series.read(state := FakeHandle().work().state)
    plot = series.plot(state, None)
    colours = {name: (n, n, n) for n, name in enumerate((GROUND, *ROLES), 40)}
    wide, rows = pixels(chart_png(plot, 40, 10, (8, 16), colours))
    assert (wide, len(rows)) == (320, 160)
    assert len({place for row in rows for place in row}) > 5
    assert {sign for sign, _ in VERDICT.values()} <= _SHAPES.keys()
    wide, rows = pixels(chart_png(plot, 250, 80, (10, 20), colours))
    assert wide * len(rows) <= MOST_PIXELS


@pytest.mark.parametrize(
    ("answer", "shows"),
    [
        (OK + KITTY + LAST, True),
        (OK + "\x1bP>|ghostty 1.1.0\x1b\\" + LAST, True),
        (OK + KITTY.replace("35", "26") + LAST, False),
        (OK + "\x1bP>|Konsole 24.08\x1b\\" + LAST, False),
        (KITTY + LAST, False),
        ("\x1b_Gi=31;EINVAL\x1b\\" + KITTY + LAST, False),
        (LAST, False),
        ("", False),
    ],
)
def test_only_a_terminal_that_answers_so_shows_pictures(answer: str, shows: bool) -> None:
    assert kitty.shows_pictures(answer) is shows
    assert kitty.answered(answer) is bool(answer)


def test_only_a_terminal_that_may_show_pictures_is_asked() -> None:
    here = {"TERM": "xterm-kitty"}
    assert may_show(None, here)
    assert may_show(Preferences(pictures="on"), here)
    assert not may_show(Preferences(pictures="off"), here)
    assert not may_show(None, {"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"})
    assert not may_show(None, here | {"TMUX": "/tmp/tmux"})


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    codes: list[str] = []
    monkeypatch.setattr("textual.constants.COLOR_SYSTEM", "truecolor")
    monkeypatch.setattr(textual_internals, "write_to_terminal", lambda _, text: codes.append(text))
    return codes


def placeholders(stage: Stage) -> int:
    return stage.text().count(kitty.PLACEHOLDER)


async def test_the_picture_follows_the_pane_and_goes_with_it(written: list[str]) -> None:
    async with on_stage(FakeHandle().work()) as stage:
        assert placeholders(stage) == 0
        stage.app._pictures = True
        await stage.press("3", "z")
        number, columns, rows, _ = sent("".join(written))
        assert placeholders(stage) == columns * rows
        assert PICTURE <= number < 2 * PICTURE
        strip = stage.deck.query_one(ChartPane).render_line(3)
        colours = {part.style.color.triplet for part in strip if kitty.PLACEHOLDER in part.text}  # type: ignore[union-attr]
        assert [tuple(each) for each in colours] == [tuple(number.to_bytes(3, "big"))]
        assert strip.cell_length == LABEL + 1 + columns
        assert kitty.PLACEHOLDER not in text(stage.app, None)
        assert placeholders(stage) == columns * rows
        await stage.resize(100, 30)
        _, columns, rows, _ = sent("".join(written))
        assert placeholders(stage) == columns * rows
        await stage.press("?")
        assert 0 < placeholders(stage) < columns * rows, "the help lies over it"
        await stage.press("escape", "z", "2", "z")
        assert placeholders(stage) == 0
        await stage.press("z", "3", "z")
        stage.app.appearance._use("glyphs", "ascii")
        stage.app.appearance.reword()
        await stage.pull()
        assert placeholders(stage) == 0
        assert written[-1] == kitty.deleted(number)


ASKING = """
import sys
from pathlib import Path
from akg_tui.tui import terminal_pictures
from akg_tui.tui.app import WorkbenchApp
from tests.tui.script import FakeHandle

handle = FakeHandle(path=str(Path.cwd())).work()
async def open_run():
    return handle
app = WorkbenchApp(open_run, pictures=terminal_pictures.asked(None), clock=handle.clock)
sys.exit(app.run())
"""


def test_a_terminal_that_answers_gets_the_picture_and_loses_it_at_the_end(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", ASKING]
    terminal = PtyTerminal(command, tmp_path, (120, 40), PYTHONPATH=root, TERM="xterm-kitty")
    try:
        terminal.until(lambda: kitty.QUERY.encode() in terminal.written, "the question")
        terminal.write(OK + KITTY + LAST)
        shown = kitty.cell(0, 0).encode()
        terminal.until(lambda: shown in terminal.written, "the picture")
        # Read so far, which may end within a character.
        number, columns, rows, png = sent(terminal.written.decode(errors="replace"))
        assert number == PICTURE + terminal.pid % PICTURE
        wide, drawn = pixels(png)
        assert (wide, len(drawn)) == (10 * columns, 20 * rows)
        red, green, blue = number.to_bytes(3, "big")
        assert f"38;2;{red};{green};{blue}".encode() in terminal.written
        terminal.write("q")
        assert terminal.wait_ended() == 0
        end = terminal.written.decode()
        assert 0 < end.find(kitty.deleted(number)) < end.rfind("\x1b[?1049l")
    finally:
        terminal.close()
