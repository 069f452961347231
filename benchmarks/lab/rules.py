"""What a request must be: headers, shape, pairing of calls and results, marks, and prefixes.

Breaks of the API's own rules are answered like the API does, with a 400 in its words;
breaks of ours (a changed prefix, a changed thought) are kept for the test to look at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

ID = re.compile(r"[A-Za-z0-9_-]+")
NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
MAX_MARKS = 4


def plain(block: Mapping[str, Any]) -> str:
    """A block without its mark, as bytes would hold it."""
    return json.dumps({k: v for k, v in block.items() if k != "cache_control"})


def parts(body: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Everything a prompt is made of, in the order in which it is cached."""
    found = [("tool", tool) for tool in body.get("tools", ())]
    found += [("system", block) for block in body.get("system", ())]
    for message in body["messages"]:
        found += [(message["role"], block) for block in message["content"]]
    return found


def canonical(body: Mapping[str, Any]) -> list[str]:
    return [f"{role} {plain(block)}" for role, block in parts(body)]


def header_fault(headers: Mapping[str, str]) -> str:
    if headers.get("anthropic-version", "") < "2023-06-01":
        return "anthropic-version: header is required"
    if "application/json" not in headers.get("content-type", ""):
        return "content-type: must be application/json"
    return ""


def shape_fault(body: Mapping[str, Any]) -> str:
    """Why the API would refuse `body`, in its words; "" when it would not."""
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            return f"{name}: Field required"
    messages = body["messages"]
    if not messages or messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    names = [tool["name"] for tool in body.get("tools", ())]
    if len(set(names)) != len(names):
        return "tools: Tool names must be unique."
    for index, message in enumerate(messages):
        if index and message["role"] == messages[index - 1]["role"]:
            return f"messages.{index}: roles must alternate"
        if fault := _content_fault(message):
            return f"messages.{index}: {fault}"
    return _pairing_fault(messages) or _mark_fault(body) or _thinking_fault(body)


def _content_fault(message: Mapping[str, Any]) -> str:
    if not message["content"]:
        return "content: must not be empty"
    for block in message["content"]:
        if block["type"] == "text" and not block["text"].strip():
            return "text content blocks must contain non-whitespace text"
        if block["type"] == "tool_use":
            if not ID.fullmatch(block["id"]) or not NAME.fullmatch(block["name"]):
                return "tool_use: String should match pattern '^[a-zA-Z0-9_-]+$'"
            if not isinstance(block["input"], dict):
                return "tool_use.input: Input should be a valid dictionary"
    return ""


def _pairing_fault(messages: list[Mapping[str, Any]]) -> str:
    seen: set[str] = set()
    for index, message in enumerate(messages):
        calls = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        if len(set(calls)) != len(calls) or seen & set(calls):
            return "messages: `tool_use` ids must be unique"
        seen |= set(calls)
        following = messages[index + 1]["content"] if index + 1 < len(messages) else []
        answers = [b["tool_use_id"] for b in following if b["type"] == "tool_result"]
        if missing := [each for each in calls if each not in answers]:
            return (
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
        if calls or answers:
            kinds = [b["type"] for b in following[: len(answers)]]
            if any(kind != "tool_result" for kind in kinds):
                return f"messages.{index + 1}: `tool_result` blocks must come first"
        if index and any(b["type"] == "tool_result" for b in message["content"]):
            before = {b["id"] for b in messages[index - 1]["content"] if b["type"] == "tool_use"}
            mine = {b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"}
            if mine - before:
                return f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks"
    return ""


def _mark_fault(body: Mapping[str, Any]) -> str:
    marks = [block["cache_control"] for _, block in parts(body) if "cache_control" in block]
    if len(marks) > MAX_MARKS:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
    lives = [mark.get("ttl", "5m") for mark in marks]
    if "1h" in lives[lives.index("5m") :] if "5m" in lives else False:
        return "a ttl='1h' cache_control block must not come after a ttl='5m' one"
    for role, block in parts(body):
        if role == "assistant" and block["type"] == "thinking" and "cache_control" in block:
            return "thinking.cache_control: Extra inputs are not permitted"
    return ""


def _thinking_fault(body: Mapping[str, Any]) -> str:
    thinking = body.get("thinking", {})
    if thinking.get("type") == "enabled" and thinking["budget_tokens"] >= body["max_tokens"]:
        return "`max_tokens` must be greater than `thinking.budget_tokens`"
    return ""


class Memory:
    """What was sent before, to tell a prefix that broke and a thought that was changed."""

    def __init__(self) -> None:
        self.ends: list[list[str]] = []
        self.thoughts: dict[str, str] = {}
        self.faults: list[str] = []
        self.fresh = 0

    def look(self, body: Mapping[str, Any]) -> None:
        """Take note of a request; what it breaks goes into `faults`."""
        now = canonical(body)
        for index, end in enumerate(self.ends):
            if now[: len(end)] == end:
                self.ends[index] = now
                break
        else:
            self.fresh += 1
            self.ends.append(now)
            if len(body["messages"]) > 1:
                self.faults.append(f"request breaks the prefix at {self._parting(now)}")
        for _, block in parts(body):
            if block.get("type") == "thinking":
                told = self.thoughts.get(block.get("signature", ""))
                if told is not None and told != block["thinking"]:
                    self.faults.append("a thought came back changed")

    def _parting(self, now: list[str]) -> str:
        last = self.ends[-2] if len(self.ends) > 1 else []
        same = next((i for i, (a, b) in enumerate(zip(now, last, strict=False)) if a != b), 0)
        return f"part {same}: {now[same][:80]}"
