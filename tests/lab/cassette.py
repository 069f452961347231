"""Recorded replies, played back to the byte and to the request that they answered.

A tape is one JSON object a line: the ordinal, the hash of the request without its cache
marks, and the bytes of the reply. Played back, a request that is not the recorded one is
an error: nothing is matched by likeness.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from tests.lab.replies import Reply, Send, refuse
from tests.lab.rules import canonical
from tests.lab.server import Request, Script


def request_hash(request: Request) -> str:
    """The request's prompt and settings, marks aside."""
    rest = {k: v for k, v in request.body.items() if k not in ("tools", "system", "messages")}
    told = json.dumps([canonical(request.body), rest], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


class Recorder:
    """Answers by `script` and writes down what was asked and answered."""

    def __init__(self, script: Script, tape: Path) -> None:
        self._script = script
        self._tape = tape
        self._count = 0

    def __call__(self, request: Request) -> Reply:
        reply = self._script(request)
        assert isinstance(reply, Reply)
        data = b"".join(step.data for step in reply.steps if isinstance(step, Send))
        self._count += 1
        line = {
            "ordinal": self._count,
            "request": request_hash(request),
            "status": reply.status,
            "headers": dict(reply.headers),
            "reply": base64.b64encode(data).decode(),
        }
        with self._tape.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return reply


class Cassette:
    """Plays a tape. `wrong` says which request was not the recorded one."""

    def __init__(self, tape: Path) -> None:
        self._lines = [json.loads(line) for line in tape.read_text().splitlines()]
        self._next = 0
        self.wrong: list[str] = []

    @property
    def left(self) -> int:
        return len(self._lines) - self._next

    def __call__(self, request: Request) -> Reply:
        if not self.left:
            self.wrong.append(f"request {self._next + 1} is beyond the tape")
            return refuse(404, "not_found_error", self.wrong[-1])
        line = self._lines[self._next]
        if line["request"] != request_hash(request):
            self.wrong.append(f"request {line['ordinal']} is not the recorded one")
            return refuse(404, "not_found_error", self.wrong[-1])
        self._next += 1
        return Reply([Send(base64.b64decode(line["reply"]))], line["status"], line["headers"])
