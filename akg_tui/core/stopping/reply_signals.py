"""Phrases in a model's closing text that mean that it gave up or waits for a person.

The lists and windows are those of the automation-policy page, for compatibility; phrases
are matched literally. Phrases are a poor substitute for a tool call: they are searched
only under a strict policy, and only in replies that call no tool.
"""

from __future__ import annotations

WINDOW = 600  # characters, from the end of the closing paragraph

# Matched anywhere in the reply.
HARD_FAILURES = (
    "traceback (most recent call last)",
    "sorry, i encountered an error",
    "memory archival failed",
    "tool call failed",
    "unrecoverable error",
    "无法继续",
)

# Matched only in the closing paragraph.
SOFT_FAILURES = (
    "i'm unable to proceed",
    "i am unable to proceed",
    "cannot proceed because",
    "cannot continue because",
    "i cannot continue",
    "blocked by",
)

# Matched only in the closing paragraph.
INPUT_REQUESTS = (
    "please confirm",
    "please choose",
    "please provide",
    "could you provide",
    "could you confirm",
    "can you provide",
    "need your input",
    "awaiting your input",
    "awaiting your confirmation",
    "what would you like to do next",
    "shall i proceed",
    "should i proceed",
    "do you want me to",
    "请提供",
    "请确认",
    "请选择",
    "是否继续",
    "是否开始",
    "是否要我",
    "等待你的确认",
    "等待用户",
)


def closing_window(reply: str) -> str:
    """Return the last `WINDOW` characters of the text after the last blank line, in lower case.

    Only two consecutive line feeds make a blank line: a reply that ends in a blank line has an
    empty window, and text with carriage returns has no blank line.
    """
    return reply.rsplit("\n\n", 1)[-1][-WINDOW:].lower()


def looks_like_failure(reply: str) -> bool:
    """Return whether a phrase in the reply means that the work failed or cannot continue."""
    whole = reply.lower()
    if any(phrase in whole for phrase in HARD_FAILURES):
        return True
    window = closing_window(reply)
    return any(phrase in window for phrase in SOFT_FAILURES)


def looks_like_input_request(reply: str) -> bool:
    """Return whether the closing text of the reply asks a person for an answer."""
    window = closing_window(reply)
    return any(phrase in window for phrase in INPUT_REQUESTS)
