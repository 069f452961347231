"""A run as a stream of plain lines, for screen readers, logs and pipes.

Prints every event of the log and every request to the user; the user answers in lines typed on the
terminal. Moves no cursor, sends no colours and repeats no line. Reads a `RunHandle` and steers it
by commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

from akg_tui.core import commands as cmd
from akg_tui.core.approval_rules import told as rule_told
from akg_tui.core.effects import Hold, next_effect, under_way
from akg_tui.core.phases import Mode, Overlay
from akg_tui.core.sanitize import clean, one_line
from akg_tui.core.summary import best_of
from akg_tui.engine.run_handle import unread
from akg_tui.headless.watched_run import closing_lines, run_watched
from akg_tui.view import formatting
from akg_tui.view.controls.approvals import Request, requests
from akg_tui.view.controls.completion import HintRefused, hint_command
from akg_tui.view.diff import Compared, Kind, compare_kernels, folded, size
from akg_tui.view.event_words import line_texts
from akg_tui.view.glyphs import ascii_twin
from akg_tui.view.language import retold, speak, tr, translated
from akg_tui.view.status import server_told, stop_told

if TYPE_CHECKING:
    from akg_tui.core.state import RunState
    from akg_tui.engine.run_handle import RunHandle
    from akg_tui.view.controls.preferences import Preferences

PROGRESS_S = 10.0
ARM_S = 0.5
DIFF_CONTEXT = 3
YES = ("keep", "approve")
NO = ("discard", "reject")


async def run_plain(
    handle: RunHandle, out: TextIO, typed: TextIO | None, wanted: Preferences
) -> None:
    """Run to the end, and print the run line by line on `out`.

    Answers are read from `typed` if that is a terminal. Raises `watched_run.ModelHeld` when
    the model cannot be used and no user can type `go`.
    """
    if wanted.lang:
        speak(wanted.lang)
    answers = typed if typed is not None and typed.isatty() else None
    stream = PlainStream(handle, out, ascii_only=wanted.glyphs == "ascii")
    stream.begin(can_answer=answers is not None)
    with _lines_of(answers, stream.answer):
        await run_watched(handle, stream.write, attended=answers is not None)
    for line in closing_lines(handle, translated):
        stream.say(line)


@contextlib.contextmanager
def _lines_of(typed: TextIO | None, take: Callable[[str], None]) -> Iterator[None]:
    """Pass each typed line to `take` while the body runs."""
    if typed is None:
        yield
        return
    loop = asyncio.get_running_loop()
    number = typed.fileno()
    pending = bytearray()

    def read() -> None:
        try:
            some = os.read(number, 4096)
        except OSError:
            some = b""
        if not some:
            loop.remove_reader(number)
            return
        pending.extend(some)
        while (end := pending.find(b"\n")) >= 0:
            line = bytes(pending[:end]).decode("utf-8", "replace")
            del pending[: end + 1]
            take(line)

    loop.add_reader(number, read)
    try:
        yield
    finally:
        loop.remove_reader(number)


class PlainStream:
    """Prints a run as lines, and carries out the commands that the user types."""

    def __init__(
        self,
        handle: RunHandle,
        out: TextIO,
        *,
        ascii_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._handle = handle
        self._out = out
        self._clock = clock
        self._ascii = ascii_only
        self._shown = 0
        self._printed_wait: tuple[object, ...] = ()
        # When each request was printed, by its ident.
        self._asked: dict[str, float] = {}
        self._progress = ("", 0.0)
        self._can_answer = False

    def begin(self, *, can_answer: bool) -> None:
        """Print the first lines: the task, and the commands that can be typed."""
        self._can_answer = can_answer
        state = self._handle.state
        first = tr("run of {op}, mode {mode}", op=one_line(state.task.op), mode=state.mode)
        server = server_told(state)
        self.say(f"{first}, {server}" if server else first)
        if can_answer:
            self.say(tr("type help and enter for what you can say"))
        elif state.mode is not Mode.AUTO:
            self.say(
                tr("nobody can answer here, as the input is no terminal: what waits for an answer"
                   " waits until the run is resumed in one")
            )  # fmt: skip

    def say(self, text: str) -> None:
        """Print one line, sanitized, and flush it."""
        line = ascii_twin(clean(text)) if self._ascii else clean(text)
        self._out.write(f"{line}\n")
        self._out.flush()

    def write(self) -> None:
        """Print the events and requests since the last call."""
        start, self._shown = self._shown, len(self._handle.records)
        for record in unread(self._handle.records, start):
            at = time.strftime("%H:%M:%S", time.localtime(record.at))
            for line in line_texts(record.event, "plain", translated):
                self.say(f"{at} {line}")
        self._print_waiting()
        self._print_progress()

    def _print_waiting(self) -> None:
        """Print the requests and holds that wait for the user, once each time the wait begins."""
        state = self._handle.state
        waiting = self._asks()
        for ask in waiting:
            if ask.ident not in self._asked:
                self._asked[ask.ident] = self._clock()
                self._ask(state, ask)
        if waiting:
            return
        effect = None if state.finished else next_effect(state, self._clock())
        held: tuple[object, ...] = ()
        if isinstance(effect, Hold) and not self._pauses(effect):
            held = effect.overlay, effect.due, state.mode, state.api_failure
            if held != self._printed_wait:
                self._wait(effect)
        self._printed_wait = held

    def _pauses(self, hold: Hold) -> bool:
        """Return whether a pause waits for the end of what is under way."""
        working = under_way(self._handle.state) or not self._handle.live.holds
        return hold.overlay is Overlay.PAUSED and hold.due is None and working

    def _asks(self) -> tuple[Request, ...]:
        """Return the requests that wait for the user now."""
        now = self._clock()
        return requests(self._handle.state, lambda ident: self._asked.get(ident, now), now, (0, 0))

    def _ask(self, state: RunState, ask: Request) -> None:
        if ask.kind == "question":
            self._ask_question(ask)
            return
        self.say(tr("ASK: {title} {about}", title=ask.title, about=ask.about))
        for line in (*ask.effects, *ask.detail.splitlines()):
            self.say(f"  {clean(line)}")
        if ask.diff:
            added, removed = size(self._compared(state))
            self.say(tr("  {added} lines added, {removed} removed, against the best", added=added,
                        removed=removed))  # fmt: skip
        if not self._can_answer:
            return
        if ask.kind == "keep":
            self.say(tr("  answer keep or discard, with a comment if you like; diff shows it"))
        elif ask.diff:
            self.say(tr("  answer approve or reject, with a comment if you like; diff shows it"))
        else:
            self.say(tr("  answer approve or reject, with a comment if you like"))
        if ask.always:
            self.say(tr("  or always: {what}, until revoke", what=ask.always))

    def _ask_question(self, ask: Request) -> None:
        self.say(tr("ASK: the agent asks: {text}", text=ask.title))
        for number, choice in enumerate(ask.choices, 1):
            self.say(f"  {number} {one_line(choice)}")
        for effect in ask.effects:
            self.say(f"  {effect}")
        if not self._can_answer:
            return
        if ask.choices:
            self.say(tr("  answer with its number or its words: answer 1"))
            return
        question = self._handle.state.question
        default = question.default if question else None
        alone = tr("; answer alone takes {default}", default=one_line(default)) if default else ""
        self.say(tr("  answer with words: answer TEXT") + alone)

    def _wait(self, hold: Hold) -> None:
        to = f" {hold.due}" if hold.due else ""
        if hold.overlay is Overlay.PAUSED:
            self.say(tr("WAITS: paused; go goes on, step takes one step{to}", to=to))
        elif hold.overlay is Overlay.WAIT_STEP:
            self.say(tr("WAITS: step takes one step{to}, mode auto goes on by itself", to=to))
        elif hold.overlay is Overlay.WAIT_API:
            why = retold(self._handle.state.api_failure, 300)
            self.say(tr("WAITS: the model cannot be used ({why}); go tries again", why=why))

    def _print_progress(self) -> None:
        """Print the progress of a long evaluation every `PROGRESS_S` seconds."""
        live = self._handle.live
        stage, since = self._progress
        now = self._clock()
        if live.progress is None:
            self._progress = ("", now)
        elif not stage:
            self._progress = (live.activity, now)
        elif now - since >= PROGRESS_S:
            self._progress = (live.activity, now)
            progress = live.progress
            part = f" {progress.told}" if progress.told else ""
            ratio = f", {formatting.ratio(progress.ratio)}" if progress.ratio else ""
            doing = f"{retold(live.activity)}: {formatting.stage(progress.stage)}"
            self.say(f"  {doing}{part}{ratio}")

    def _compared(self, state: RunState) -> Compared:
        best = state.best.blob if state.best else state.seed_blob
        old, new = self._handle.kernel(best), self._handle.kernel(state.work_blob)
        return compare_kernels(old, new)

    def answer(self, line: str) -> None:
        """Carry out one typed line."""
        word, _, rest = line.strip().partition(" ")
        word, rest = word.casefold(), rest.strip()
        if not word:
            return
        handlers: dict[str, Callable[[str], None]] = {
            **dict.fromkeys(YES, lambda comment: self._settle(comment, approve=True)),
            **dict.fromkeys(NO, lambda comment: self._settle(comment, approve=False)),
            "always": lambda comment: self._settle(comment, approve=True, always=True),
            "rules": lambda _: self._rules(),
            "revoke": self._revoke,
            "answer": self._reply,
            "diff": lambda _: self._diff(),
            "pause": lambda _: self._send(
                cmd.Pause(), tr("pausing: the work under way ends first")
            ),
            "go": lambda _: self._send(cmd.Unpause(), tr("the run goes on")),
            "step": lambda _: self._send(cmd.Step(), tr("one step is granted")),
            "stop": lambda _: self._send(
                cmd.Stop(),
                stop_told(self._handle.state, self._clock(), step="step"),
            ),
            "skip": lambda _: self._send(cmd.LeaveOutCompile(), tr("torch.compile is left out")),
            "new": lambda _: self._send(cmd.NewSession(), tr("a new session begins")),
            "hint": self._hint,
            "mode": self._mode,
            "status": lambda _: self._status(),
            "help": lambda _: self._help(),
        }
        handler = handlers.get(word)
        if handler is None:
            self.say(tr("{word} is nothing that can be said here; help lists what can",
                        word=one_line(word, 40)))  # fmt: skip
        else:
            handler(rest)

    def _send(self, command: cmd.Command, told: str) -> None:
        refused = self._handle.send(command)
        self.say(tr("refused: {why}", why=retold(refused.why)) if refused else told)
        self.write()

    def _settle(self, comment: str, *, approve: bool, always: bool = False) -> None:
        """Answer the open gate, if its request has been shown for `ARM_S` seconds."""
        waiting = self._asks()
        ask = next((each for each in waiting if each.gate), None)
        if ask is None and waiting:
            self.say(tr("this is a question: answer TEXT"))
        elif ask is None or ask.ident not in self._asked:
            self.say(tr("nothing waits for an answer"))
        elif self._could_be_read(ask):
            does = "always" if always and ask.always else "keep" if approve else "reject"
            told = next(answer.told for answer in ask.answers if answer.does == does)
            self._send(cmd.AnswerGate(ask.gate, approve, comment, always), told)

    def _rules(self) -> None:
        """Print the approval rules, active and ended."""
        rules = self._handle.state.rules
        if not rules:
            self.say(tr("there are no rules: you are asked each time"))
        for rule in rules:
            self.say(f"  {retold(rule_told(rule))}")

    def _revoke(self, text: str) -> None:
        if text.isascii() and text.isdecimal() and len(text) < 10:
            number = int(text)
            self._send(cmd.RevokeRule(number), tr("rule {number} is ended", number=number))
        else:
            self.say(tr("a rule is named by its number: revoke 1"))

    def _could_be_read(self, ask: Request) -> bool:
        if self._clock() - self._asked[ask.ident] >= ARM_S:
            return True
        self.say(tr("not yet: that was typed before the question could be read"))
        return False

    def _reply(self, text: str) -> None:
        """Answer the agent's question: by the number or words of a choice, or in free text."""
        ask = next((each for each in self._asks() if each.kind == "question"), None)
        question = self._handle.state.question
        if ask is None or question is None or ask.ident not in self._asked:
            self.say(tr("no question waits for an answer"))
        elif self._could_be_read(ask):
            said = text or (question.default or "")
            if text.isdecimal() and text not in ask.choices and int(text) <= len(ask.choices):
                said = ask.choices[int(text) - 1] if int(text) else text
            if said:
                self._send(
                    cmd.AnswerQuestion(question.number, said),
                    tr("the agent goes on with your answer"),
                )
            else:
                self.say(tr("an answer needs words: answer TEXT"))

    def _hint(self, text: str) -> None:
        if not text:
            self.say(tr("a hint needs words: hint TEXT"))
            return
        state = self._handle.state
        best = state.best.blob if state.best else state.seed_blob
        try:
            command, told = hint_command(text, state, self._handle.kernel(best))
        except HintRefused as error:
            self.say(str(error))
        else:
            self._send(command, told)

    def _mode(self, name: str) -> None:
        if name in {mode.value for mode in Mode}:
            self._send(cmd.SetMode(Mode(name)), tr("mode {name}", name=name))
        else:
            self.say(tr("mode takes auto, review or step"))

    def _diff(self) -> None:
        rows = folded(self._compared(self._handle.state), DIFF_CONTEXT)
        if not any(row.kind in (Kind.ADDED, Kind.REMOVED) for row in rows):
            self.say(tr("the kernel under work is the best one"))
            return
        for row in rows:
            if row.kind is Kind.GAP:
                self.say(tr("  ... {count} lines alike", count=row.old))
            else:
                old, new = rows.in_files(row)
                self.say(f"  {row.kind.value} {new or old or ' '} {row.text}")

    def _status(self) -> None:
        state = self._handle.state
        doing = retold(self._handle.live.activity) or tr("waiting")
        found = best_of(state)
        best = formatting.overall(found) if found else tr("no baseline yet")
        self.say(
            tr("{phase}: {doing}; round {round} of {rounds}, best {best}, mode {mode}",
               phase=state.phase, doing=doing, round=state.rounds,
               rounds=state.task.policy.max_rounds, best=best, mode=state.mode)
        )  # fmt: skip

    def _help(self) -> None:
        for text in (
            tr("keep or approve, discard or reject [COMMENT]: answer what is asked"),
            tr("always [COMMENT]: approve it, and all such requests after it by a rule"),
            tr("rules, revoke NUMBER: what answers in your place, and its end"),
            tr("answer TEXT: answer the agent's question"),
            tr("diff: the candidate against the best kernel"),
            tr("pause, go, step: hold the run, let it go on, take one step"),
            tr("mode auto|review|step: what waits for you"),
            tr("skip: leave torch.compile out, which is measured after the first KEEP"),
            tr("new: a new session: a new conversation, tokens counted from zero"),
            tr("hint TEXT: tell the agent something"),
            tr("status: where the run stands"),
            tr("stop: end the run and report; ctrl+c leaves it to be resumed"),
        ):
            self.say(f"  {text}")
