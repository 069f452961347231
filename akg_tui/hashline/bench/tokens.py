"""An estimate of how many tokens a text costs, by no model's own tokenizer.

It cuts text as the published byte-pair tokenizers do before they merge (words, up to three
digits, runs of blanks, runs of punctuation) and counts a long word as several. It ranks
formats; a price for one model needs that model's tokenizer.
"""

from __future__ import annotations

import re

NAME = "estimate: pre-tokenizer pieces, words cut at 7 letters, punctuation at 3 characters"

_PIECE = re.compile(r" ?[A-Za-z]{1,7}|\d{1,3}| ?[^\sA-Za-z0-9]{1,3}|\n+|[^\S\n]+(?=\S)|[^\S\n]+")


def estimate(text: str) -> int:
    """Tokens of `text`, roughly; never less than one for a text that is not empty."""
    return sum(1 for _ in _PIECE.finditer(text))
