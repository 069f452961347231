"""Phrases in a model's closing words that say it gave up, or that it waits for a person.

The lists and windows are those of the automation-policy page this program is compatible
with; they are matched literally. Phrases are a poor substitute for a tool call: they
are read only where a policy is strict, and only in replies that call no tool.
"""

from __future__ import annotations

WINDOW = 600  # characters, from the end of the closing paragraph

# Anywhere in the reply.
HARD_FAILURES = (
    "traceback (most recent call last)",
    "sorry, i encountered an error",
    "memory archival failed",
    "tool call failed",
    "unrecoverable error",
    "无法继续",
)

# Only in the closing paragraph.
SOFT_FAILURES = (
    "i'm unable to proceed",
    "i am unable to proceed",
    "cannot proceed because",
    "cannot continue because",
    "i cannot continue",
    "blocked by",
)

# Only in the closing paragraph.
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
    """The text after the last blank line, its last 600 characters, in lower case.

    A blank line is two line feeds and nothing else: a reply that ends in one has an empty
    window, and text with carriage returns has no blank line.
    """
    return reply.rsplit("\n\n", 1)[-1][-WINDOW:].lower()


def looks_like_failure(reply: str) -> bool:
    """Whether the reply says that the work failed or cannot go on."""
    whole = reply.lower()
    if any(phrase in whole for phrase in HARD_FAILURES):
        return True
    window = closing_window(reply)
    return any(phrase in window for phrase in SOFT_FAILURES)


def looks_like_input_request(reply: str) -> bool:
    """Whether the reply's closing words ask a person for an answer."""
    window = closing_window(reply)
    return any(phrase in window for phrase in INPUT_REQUESTS)
