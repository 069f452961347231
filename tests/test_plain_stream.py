"""The stream of lines: what it tells, what it asks, and what typed lines do."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import termios
from pathlib import Path

import pytest
from msgspec.structs import replace

from akg_tui.cli import main
from akg_tui.core import commands as cmd
from akg_tui.core import effects as fx
from akg_tui.core import events as ev
from akg_tui.core.measurement import Outcome
from akg_tui.core.phases import Gate, Mode, Phase
from akg_tui.headless.plain_stream import PlainStream, run_plain
from akg_tui.headless.watched_run import ModelHeld, narrate
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.view.controls.preferences import Preferences
from akg_tui.view.event_words import line_texts
from akg_tui.view.language import speak

from .report import runs
from .store.scripted import measurement, perform, send
from .tui.script import FakeHandle, faster, wrong
from .tui.script import Try as ATry


def told(handle: FakeHandle, **options: object) -> tuple[PlainStream, io.StringIO]:
    out = io.StringIO()
    stream = PlainStream(handle, out, clock=handle.clock, **options)  # type: ignore[arg-type]
    stream.begin(can_answer=True)
    return stream, out


def asking() -> FakeHandle:
    return FakeHandle(mode=Mode.REVIEW).work()


def test_a_whole_run_is_told_in_lines_that_say_each_thing_once() -> None:
    handle = FakeHandle()
    stream, out = told(handle)
    while handle.step():
        stream.write()
        stream.write()
    rows = out.getvalue().splitlines()
    assert rows[0] == "run of row_softmax, mode auto"
    assert sum("KEEP p1" in row for row in rows) == 1
    assert any("phase     PLAN" in row for row in rows)
    assert any("agent     I set FLAGS = -O3" in row for row in rows)
    assert any(" the run is over: " in row for row in rows)
    dated = [row for row in rows[2:] if not row.startswith((" ", "WAITS", "ASK"))]
    assert len(dated) == len(set(dated))


def test_no_line_holds_anything_that_acts_on_a_terminal() -> None:
    plan = [[ATry("item \x1b]0;x\x07\u202e", '"-O1"  #', '"-O3"  #', wrong("no \x1b[31m"))]]
    handle = FakeHandle(plans=plan)
    stream, out = told(handle)
    handle.work()
    stream.write()
    assert "␛]0;x␇<U+202E>" in out.getvalue()
    assert not any(ord(c) < 0x20 and c != "\n" for c in out.getvalue())


def test_without_utf8_every_line_is_ascii() -> None:
    handle = asking()
    stream, out = told(handle, ascii_only=True)
    stream.write()
    assert "v KEEP" in out.getvalue() or "ASK: KEEP attempt 1?" in out.getvalue()
    assert out.getvalue().isascii()


def test_a_question_is_asked_once_with_all_that_an_answer_needs() -> None:
    handle = asking()
    stream, out = told(handle)
    for _ in range(3):
        stream.write()
    text = out.getvalue()
    assert text.count("ASK: KEEP attempt 1? p1 FLAGS = -O3") == 1
    assert "31.0 % faster (27.1 to 34.9), 95 % sure" in text
    assert "1 lines added, 1 removed" in text
    assert "answer keep or discard" in text


@pytest.mark.parametrize(("word", "approve"), [("keep", True), ("DISCARD", False)])
def test_a_typed_answer_counts_once_the_question_could_be_read(word: str, approve: bool) -> None:
    handle = asking()
    stream, out = told(handle)
    stream.answer(word)
    assert "nothing waits for an answer" in out.getvalue()
    stream.write()
    stream.answer(word)
    assert "not yet" in out.getvalue()
    handle.now += 1
    stream.answer(f"{word} well done")
    assert handle.sent[-1] == cmd.AnswerGate(1, approve, "well done")
    stream.answer(word)
    assert len([c for c in handle.sent if isinstance(c, cmd.AnswerGate)]) == 1


@pytest.mark.parametrize(
    ("gate", "title"),
    [(Gate.PLAN, "Go on with this plan of 6 items?"), (Gate.EDIT, "RUN the edit of attempt 1?")],
)
@pytest.mark.parametrize(("word", "approve"), [("approve", True), ("reject", False)])
def test_every_gate_is_told_and_answered_in_words(
    gate: Gate, title: str, word: str, approve: bool
) -> None:
    handle = FakeHandle()
    assert handle.send(cmd.SetGate(gate, on=True)) is None
    handle.work()
    stream, out = told(handle)
    stream.write()
    assert f"ASK: {title}" in out.getvalue()
    assert "answer approve or reject" in out.getvalue()
    stream.answer(word)
    assert "not yet" in out.getvalue()
    handle.now += 1
    stream.answer(f"{word} because")
    assert handle.sent[-1] == cmd.AnswerGate(1, approve, "because")


def test_a_script_is_read_in_full_before_it_may_run() -> None:
    handle = FakeHandle().to_phase(Phase.PLAN)
    handle.tell(ev.GateOpened(gate=1, attempt=0, kind="script", detail="import os\nrm(\x1b[2J)"))
    stream, out = told(handle)
    stream.write()
    assert "  import os\n  rm(␛[2J)\n" in out.getvalue()
    handle.now += 1
    stream.answer("approve")
    assert handle.sent[-1] == cmd.AnswerGate(1, approve=True)


@pytest.mark.parametrize(
    ("question", "line", "said"),
    [
        ({}, "answer up to 1e-3", "up to 1e-3"),
        ({"default": "1e-2"}, "answer", "1e-2"),
        ({"choices": ("loose", "tight")}, "answer 2", "tight"),
        ({"choices": ("loose", "tight")}, "answer loose", "loose"),
    ],
)
def test_the_agents_question_is_told_and_answered(
    question: dict[str, object], line: str, said: str
) -> None:
    handle = FakeHandle(mode=Mode.REVIEW).to_phase(Phase.PLAN)
    asked = cmd.AskUser(**{"text": "How far may errors go?", **question})  # type: ignore[arg-type]
    assert handle.send(asked) is None
    stream, out = told(handle)
    stream.answer(line)
    assert "no question waits for an answer" in out.getvalue()
    stream.write()
    assert out.getvalue().count("ASK: the agent asks: How far may errors go?") == 1
    stream.answer(line)
    assert "not yet" in out.getvalue()
    handle.now += 1
    stream.answer("approve")
    assert "this is a question" in out.getvalue()
    stream.answer(line)
    assert isinstance(handle.sent[-1], cmd.AnswerQuestion)
    assert handle.sent[-1].answer == said


def test_the_diff_is_shown_line_by_line() -> None:
    handle = asking()
    stream, out = told(handle)
    stream.answer("diff")
    rows = out.getvalue().splitlines()
    assert any(row.startswith('  - 8 FLAGS = "-O1"') for row in rows)
    assert any(row.startswith('  + 8 FLAGS = "-O3"') for row in rows)
    assert any("lines alike" in row for row in rows)


def test_typed_words_steer_the_run() -> None:
    handle = FakeHandle(agent="claude").to_phase(Phase.EDIT)
    stream, out = told(handle)
    for line in ("pause", "go", "mode step", "hint use float4", "step", "stop"):
        stream.answer(line)
    sent = handle.sent[-6:]
    assert sent[:4] == [cmd.Pause(), cmd.Unpause(), cmd.SetMode(Mode.STEP), cmd.Hint("use float4")]
    assert sent[4:] == [cmd.Step(), cmd.Stop()]
    assert "hint      use float4" in out.getvalue()


def held() -> FakeHandle:
    """A run whose model's server refused the key."""
    handle = FakeHandle().to_phase(Phase.PLAN)
    handle.send(cmd.Observe(ev.ApiFailed(reason="the key was refused by http://lab (401)")))
    return handle


def test_a_model_that_cannot_be_used_is_told_once_and_go_tries_again() -> None:
    handle = held()
    stream, out = told(handle)
    stream.write()
    stream.write()
    said = out.getvalue()
    assert said.count(" the model cannot be used: the key was refused by") == 1
    assert said.count("WAITS: the model cannot be used (the key was refused by") == 1
    assert "go tries again" in said
    stream.answer("go")
    assert handle.state.api_failure == ""
    stream.write()
    handle.send(cmd.Observe(ev.ApiFailed(reason="the key was refused by http://lab (401)")))
    stream.write()
    assert out.getvalue().count("go tries again") == 2


async def test_a_model_that_cannot_be_used_ends_a_stream_that_nobody_answers() -> None:
    handle, out = held(), io.StringIO()
    with pytest.raises(ModelHeld, match="the key was refused"):
        await asyncio.wait_for(run_plain(handle, out, io.StringIO("go\n"), Preferences()), 10)
    assert " the model cannot be used: the key was refused" in out.getvalue()


def test_what_waits_is_told_once_and_how_to_go_on() -> None:
    handle = FakeHandle(mode=Mode.STEP)
    stream, out = told(handle)
    stream.write()
    stream.write()
    assert out.getvalue().count("WAITS: step takes one step BASELINE") == 1


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("frobnicate", "frobnicate is nothing that can be said here"),
        ("mode fast", "mode takes auto, review or step"),
        ("hint", "a hint needs words"),
        ("step", "refused: stepping needs mode step, or a pause"),
        ("status", "EDIT: "),
        ("help", "status: where the run stands"),
        ("diff", "the kernel under work is the best one"),
        ("\x1b[A", "␛[a is nothing"),
    ],
)
def test_every_line_gets_a_reply(line: str, says: str) -> None:
    handle = FakeHandle().to_phase(Phase.EDIT)
    stream, out = told(handle)
    stream.answer(line)
    assert says in out.getvalue()


def test_an_empty_line_says_nothing() -> None:
    stream, out = told(FakeHandle())
    before = out.getvalue()
    stream.answer("   ")
    assert out.getvalue() == before


class Working(FakeHandle):
    """Takes its effects by itself, as the engine does, until it is over."""

    def __init__(self) -> None:
        first = [[ATry("FLAGS = -O3", '"-O1"  #', '"-O3"  #', faster(1.31, ms=8.1))]]
        super().__init__(mode=Mode.REVIEW, plans=first)

    async def run(self) -> None:
        while not self.state.finished:
            if not self.step():
                self.now += 1.0
            await asyncio.sleep(0)


async def test_on_a_real_terminal_what_is_typed_answers() -> None:
    handle = Working()
    leader, follower = pty.openpty()
    settings = termios.tcgetattr(follower)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(follower, termios.TCSANOW, settings)
    out = io.StringIO()
    typed = os.fdopen(follower, "r")

    class Answering(io.StringIO):
        def write(self, text: str) -> int:
            if "ASK:" in text or "not yet" in text:
                # In two writes: a line counts when it is whole.
                os.write(leader, b"kee")
                os.write(leader, b"p fine\nstatus\n")
            return out.write(text)

    try:
        await asyncio.wait_for(run_plain(handle, Answering(), typed, Preferences()), 60)
    finally:
        typed.close()
        os.close(leader)
    answers = [c for c in handle.sent if isinstance(c, cmd.AnswerGate)]
    assert answers
    assert answers[0].comment == "fine"
    assert "best kernel, measured afresh: 1.31x seed · 0.55x eager" in out.getvalue()


async def test_without_a_terminal_nothing_is_read_and_that_is_told() -> None:
    handle = FakeHandle(mode=Mode.REVIEW)
    handle.over.set()
    out, silent = io.StringIO(), io.StringIO("stop\n")
    await run_plain(handle, out, silent, Preferences())
    assert "nobody can answer here" in out.getvalue()
    assert handle.sent == []


async def test_the_stream_speaks_the_language_that_is_preferred() -> None:
    handle = FakeHandle().work()
    handle.over.set()
    out = io.StringIO()
    try:
        await run_plain(handle, out, None, Preferences(lang="zh"))
    finally:
        speak("en")
    assert out.getvalue().startswith("运行 row_softmax，模式 auto")
    assert "✓ KEEP p1 更快：+31.0 % (" in out.getvalue()
    assert "阶段      PLAN 基线已测量" in out.getvalue()


def test_a_refusal_is_told_in_the_language_spoken() -> None:
    stream, out = told(FakeHandle())
    speak("zh")
    try:
        stream.answer("step")
    finally:
        speak("en")
    assert out.getvalue().splitlines()[-1] == "被拒绝：单步要在 step 模式或暂停时"


def test_a_rule_is_made_told_listed_and_ended_in_words() -> None:
    handle = FakeHandle()
    assert handle.send(cmd.SetGate(Gate.EDIT, on=True)) is None
    handle.work()
    stream, out = told(handle)
    stream.answer("rules")
    assert "there are no rules" in out.getvalue()
    stream.write()
    said = "every later edit of the agent is built, run in the sandbox and timed unasked"
    assert f"  or always: {said}, until revoke" in out.getvalue()
    stream.answer("always")
    assert "not yet" in out.getvalue()
    assert handle.state.rules == ()
    handle.now += 1
    stream.answer("always they are small")
    assert handle.sent[-1] == cmd.AnswerGate(1, approve=True, comment="they are small", always=True)
    handle.work(lambda state: state.settled == 2)
    stream.write()
    assert f"you       always: {said} (rule 1)" in out.getvalue()
    assert " rule 1 approved the edit of attempt 2" in out.getvalue()
    stream.answer("rules")
    assert f"  rule 1, in force: {said} (used 1 time)" in out.getvalue()
    stream.answer("revoke it")
    assert "a rule is named by its number" in out.getvalue()
    stream.answer("revoke 1")
    assert handle.state.rules_in_force == ()
    assert "you       end rule 1" in out.getvalue()


def test_text_that_goes_into_a_pipe_or_a_file_is_not_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, why = (
        ("use wider loads in the loop " * 13)[:380],
        ("the loop waits for memory " * 15)[:390],
    )
    run = runs.begun(tmp_path / "task")
    while (effect := fx.next_effect(run.state, run.state.last_at)) is not None:
        if isinstance(effect, fx.RunAgent) and effect.phase == "PLAN":
            send(run, cmd.Observe(ev.ModelReplied(phase=effect.phase, model="m", text=text)))
            first = len(run.state.items)
            items = [ev.PlannedItem("", f"{first + n} {text}", f"{why} {n}") for n in range(3)]
            send(run, cmd.SubmitPlan(tuple(items)))
            send(run, cmd.Observe(ev.TurnEnded()))
        elif isinstance(effect, fx.Measure) and effect.incumbent:
            found = measurement(effect.attempt)
            if found.outcome is Outcome.FAILED:
                found = replace(found, message=why)
            send(run, cmd.StartEval(effect.purpose, effect.attempt, effect.blob))
            send(run, cmd.FinishEval(found))
        else:
            perform(run, effect)
    path = str(runs.closed(run))
    for words in (["show", path], ["runs", path], ["usage", path]):
        assert main(words) == 0
    told = capsys.readouterr().out + "\n".join(narrate(RunAtRest(Path(path)).records))
    told += "\n".join(
        line
        for each in RunAtRest(Path(path)).records
        for line in line_texts(each.event, "plain", str)
    )
    assert "…" not in told
    assert told.count(f"0 {text.strip()}") >= 3  # in the plan, the stream and the plain stream
    assert why.strip() in told
