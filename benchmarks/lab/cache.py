"""The prompt cache of the API, simulated: prefixes with a life, on a clock of its own.

By the API's documentation: a mark makes an entry of everything before it; a prompt reads
the longest living entry at a mark or within 20 blocks before one; reading renews it; a
prefix below 1,024 tokens is not kept. A token is four characters of JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.lab.rules import parts, plain

LOOKBACK = 20
LEAST_TOKENS = 1_024
LIFE = {"5m": 300.0, "1h": 3_600.0}


class PromptCache:
    """`clock` gives seconds; nothing here waits."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[str, tuple[float, float]] = {}  # prefix: when it ends, its life

    def usage(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Read and write the cache for a prompt; the counts that the API would tell."""
        now = self._clock()
        prefix = hashlib.sha256(str(body["model"]).encode())
        keys: list[str] = []
        tokens: list[int] = []  # up to and with each part
        marks: dict[int, str] = {}
        for index, (role, block) in enumerate(parts(body)):
            text = f"{role} {plain(block)}"
            prefix.update(text.encode())
            keys.append(prefix.hexdigest())
            tokens.append((tokens[-1] if tokens else 0) + (len(text) + 3) // 4)
            if mark := block.get("cache_control"):
                marks[index] = mark.get("ttl", "5m")
        read = self._read(keys, marks, now)
        return self._write(keys, tokens, marks, read, now)

    def _read(self, keys: list[str], marks: Mapping[int, str], now: float) -> int:
        """The last part that is read from the cache, or -1."""
        for mark in sorted(marks, reverse=True):
            for index in range(mark, max(-1, mark - LOOKBACK), -1):
                ends, life = self._entries.get(keys[index], (0.0, 0.0))
                if ends > now:
                    self._entries[keys[index]] = (now + life, life)
                    return index
        return -1

    def _write(
        self,
        keys: list[str],
        tokens: list[int],
        marks: Mapping[int, str],
        read: int,
        now: float,
    ) -> dict[str, Any]:
        done = tokens[read] if read >= 0 else 0
        was_read = done
        written = {"5m": 0, "1h": 0}
        for mark in sorted(marks):
            if mark <= read or tokens[mark] < LEAST_TOKENS:
                if mark < read and keys[mark] in self._entries:
                    life = self._entries[keys[mark]][1]
                    self._entries[keys[mark]] = (now + life, life)
                continue
            life = LIFE[marks[mark]]
            self._entries[keys[mark]] = (now + life, life)
            written[marks[mark]] += tokens[mark] - done
            done = tokens[mark]
        return {
            "input_tokens": tokens[-1] - done,
            "output_tokens": 1,
            "cache_read_input_tokens": was_read,
            "cache_creation_input_tokens": sum(written.values()),
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
        }
