"""Text that would act on a terminal, hide, reorder or shift: shown on every screen as it is.

Every screen at three sizes, over a run whose kernel, plan, log, question, script, file name
and run folder are all full of it.
"""

from __future__ import annotations

from rich.cells import cell_len

from akg_tui.core import commands as cmd
from akg_tui.core import events as ev
from akg_tui.core.phases import Gate, Mode, Phase
from akg_tui.core.task import Files, Policy, Target, Task

from .script import KERNEL, FakeHandle, Try, faster
from .stage import Stage, on_stage

MARKUP = "[red]m[/red] [@click=app.quit]c[/] \\[x"
ESCAPES = "\x1b[31m\x1b]0;t\x07\x9b2J\x1b[?1049l\r\x08\x00\x7f"
BIDI = "\u202eabc\u202c \u2066x\u2069 \u200f"
WIDE = "漢字かなカナ ｆｕｌｌ 👩‍👩‍👧 🇩🇪"
COMBINING = "e\u0301\u0302\u0303 a\u200bb \u0e33 \ufeff z\ufe0f"
NAME = "kernel 漢字 ｆｕｌｌ [red]m[@click=app.quit] e\u0301\u0302.py"  # no other can be made
HOSTILE = f"{WIDE[:6]} {MARKUP} {ESCAPES} {BIDI} {COMBINING} {WIDE}"

FORBIDDEN = [
    *(chr(n) for n in range(0x20)),
    *(chr(n) for n in range(0x7F, 0xA0)),
    *"\u200b\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff",
]

SIZES = [(80, 24), (120, 40), (200, 60)]


def hostile(mode: Mode = Mode.REVIEW, agent: str = "sweep") -> FakeHandle:
    kernel = KERNEL.replace("LANES = 1 ", f"# {HOSTILE.replace(chr(13), '')}\nLANES = 1 ")
    plans = [
        [
            Try(HOSTILE, '"-O1"  #', f'"-O3 {HOSTILE}"  #', faster(1.3)),
            Try(f"two {HOSTILE}", '"libm64"  #', '"libm32"  #', faster(1.2)),
        ]
    ]
    task = Task(
        op=HOSTILE.replace("\x00", ""),
        files=Files(editable=NAME),
        target=Target(backend="cpu", dsl="cpp", arch=HOSTILE),
        policy=Policy(max_rounds=12),
    )
    return FakeHandle(
        agent=agent,
        mode=mode,
        kernel=kernel,
        plans=plans,
        the_task=task,
        path=f"/runs/{HOSTILE}/run",
    )


def check(stage: Stage) -> None:
    """Nothing leaks, nothing shifts."""
    width = stage.app.size.width
    strips = stage.app.screen._compositor.render_strips()
    assert len(strips) == stage.app.size.height
    for strip in strips:
        assert not [c for c in FORBIDDEN if c in strip.text], ascii(strip.text)
        assert cell_len(strip.text) == width, (cell_len(strip.text), strip.text)


async def over_all_keys(stage: Stage, *keys: str) -> None:
    check(stage)
    for key in keys:
        await stage.press(key)
        check(stage)


async def test_on_the_deck_the_card_and_the_dialogs() -> None:
    handle = hostile().work()
    handle.live.write(HOSTILE)
    handle.tell(ev.VisitFailed(phase=Phase.DECIDE, reason=HOSTILE))
    handle.tell(ev.ToolAnswered(call="x", tool=HOSTILE, status="error", error_information=HOSTILE))
    keys = *"12345678", "question_mark", "escape", "q", "n", "M", "escape"
    async with on_stage(handle, armed=True) as stage:
        for size in SIZES:
            await stage.resize(*size)
            await over_all_keys(stage, *keys)
            assert "漢字" in stage.text()


async def test_in_the_review_unified_and_side_by_side() -> None:
    async with on_stage(hostile().work()) as stage:
        await stage.press("r")
        for size in SIZES:
            await stage.resize(*size)
            await over_all_keys(stage, "s", "w", "x", "right_curly_bracket", "s", "n")
        assert "漢字" in stage.text()


async def test_in_questions_scripts_and_what_was_written_past_the_screen() -> None:
    handle = hostile().to_phase(Phase.PLAN)
    asked = cmd.AskUser(HOSTILE, choices=(f"yes {HOSTILE}"[:150], "no"), default="no")
    assert handle.send(asked) is None
    handle.send(cmd.SetGate(Gate.SCRIPT, on=True))
    assert handle.send(cmd.RequestScript("ab" * 32, f"{HOSTILE}\n{HOSTILE}")) is None
    async with on_stage(handle, armed=True) as stage:
        for size in SIZES:
            await stage.resize(*size)
            await over_all_keys(stage, "alt+down", "alt+s", "alt+d", "escape", "E", "escape")


async def test_a_hint_with_rubbish_pasted_into_it() -> None:
    from textual.events import Paste

    handle = hostile(agent="claude").to_phase(Phase.EVAL)
    async with on_stage(handle) as stage:
        await stage.press("i")
        stage.app.screen.focused.post_message(Paste(f"{HOSTILE}\n{HOSTILE}"))  # type: ignore[union-attr]
        await stage.pull()
        check(stage)
        await stage.press("enter")
        check(stage)
    assert len(handle.state.hints) == 1


async def test_in_the_past_the_comparison_and_the_evidence_of_an_item() -> None:
    async with on_stage(hostile(Mode.AUTO).work()) as stage:
        for size in SIZES:
            await stage.resize(*size)
            await over_all_keys(stage, *"1", "down", "enter", *"2bT", "shift+left", "space", "L")
            await over_all_keys(stage, "v", "z", "right", "n", "escape", "u", "n")
            assert "漢字" in stage.text()


async def test_in_chinese_too() -> None:
    async with on_stage(hostile().work()) as stage:
        stage.app.appearance.action_setting("lang", "zh")
        await stage.arm()
        await over_all_keys(stage, *"12345678", "r", "escape", "T", "L")
        assert "漢字" in stage.text()
