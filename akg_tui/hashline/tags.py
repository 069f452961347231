"""The tag beside a line number, in one of two notations.

A tag detects a wrong line number beside a right tag. It never proves that a line is unchanged;
the line maps of `lineage` prove that.
"""

from __future__ import annotations

import hashlib
from string import ascii_lowercase
from typing import Final, Literal, TypeAlias

Notation: TypeAlias = Literal["bigram", "hex"]

# The form of the tag after the line number, by notation.
TAG_PATTERNS: Final[dict[Notation, str]] = {"bigram": "[a-z]{2}", "hex": ":[0-9a-f]{2}"}

# These pairs cost two tokens between a line number and "|" in at least one of four published
# vocabularies: cl100k (GPT-4), Qwen, DeepSeek and the public vocabulary of Claude 2. Each of the
# remaining 600 pairs is one token in all four.
_TWO_TOKENS = (
    "bqbwfjfqfzgjgkgqgvgxhjhqhxjfjgjqjvjwjxjyjzkfkqkxkzlqlwlzmhmznqnwnzoqpjpzqfqg"
    "qjqkqoqyqzrjrqsxtjtquqvjvqvxvzwjwqwvwzxgxhxjxkxqxrxuxvxwyfyhyjyqyvzgzjzqzrzv"
)
_LEFT_OUT = {_TWO_TOKENS[at : at + 2] for at in range(0, len(_TWO_TOKENS), 2)}
ALPHABET: tuple[str, ...] = tuple(
    a + b for a in ascii_lowercase for b in ascii_lowercase if a + b not in _LEFT_OUT
)


def run_key(run_id: str) -> bytes:
    """Return the key of a run's tags: the bytes of its id; of more than 64 bytes, their digest."""
    key = run_id.encode()
    most = hashlib.blake2b.MAX_KEY_SIZE
    return key if len(key) <= most else hashlib.blake2b(key, digest_size=most).digest()


class Tagger:
    """Tags of one run: a keyed BLAKE2b of line number and exact text, as one bigram of 600.

    - `key`: 1 to 64 bytes, drawn once per run. Equal keys give equal tags; without the key a tag
      can't be computed, only copied from a view.
    - `notation`: ``bigram`` shows ``2sr|``; ``hex`` shows ``2:f1|``, one of 256 tags, the form in
      which hashline was first published.

    The line number is hashed along with the text, so that the many equal lines in a kernel
    (``}``, blank lines, unrolled loops) have different tags. Indent and trailing blanks are
    hashed too. A wrong number has the right tag with a probability of 1 in 600.
    """

    __slots__ = ("_keyed", "_notation")

    def __init__(self, key: bytes, notation: Notation = "bigram") -> None:
        if not 1 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise ValueError(f"a tag key has 1 to 64 bytes, not {len(key)}")
        self._keyed = hashlib.blake2b(key=key, digest_size=8, person=b"hashline tag")
        self._notation = notation

    def tag(self, line_number: int, text: str) -> str:
        """Return the tag of a line, numbered from 1; `text` is its content without the ending."""
        keyed = self._keyed.copy()
        keyed.update(f"{line_number}\n{text}".encode("utf-8", "surrogatepass"))
        digest = int.from_bytes(keyed.digest(), "big")
        if self._notation == "hex":
            return f":{digest & 0xFF:02x}"
        return ALPHABET[digest % len(ALPHABET)]
