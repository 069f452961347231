"""Token counts of a text, by a published vocabulary read from a file or by an estimate.

The vocabularies are large and have other owners, so none is bundled: a `.tiktoken` rank file
(OpenAI's ``cl100k_base.tiktoken`` and ``o200k_base.tiktoken``, or the ``qwen.tiktoken`` that
Qwen's packages carry) is named by its path.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


class BadVocabulary(ValueError):
    """The file named as a tokenizer cannot be used; the message says why, in one line."""


@dataclass(frozen=True)
class Tokenizer:
    """A way to count. `name` is printed beside every figure that came from it."""

    name: str
    count: Callable[[str], int]


_PIECE = re.compile(r" ?[A-Za-z]{1,7}|\d{1,3}| ?[^\sA-Za-z0-9]{1,3}|\n+|[^\S\n]+(?=\S)|[^\S\n]+")

# A pair of letters that stands alone, as in `12sr|`, is one token: the alphabet is chosen so.
_TAG = re.compile(r"(?<=\d)[a-z]{4}(?=\|)")


def _estimate(text: str) -> int:
    """Tokens of `text`, roughly; never less than one for a text that is not empty."""
    return sum(1 for _ in _PIECE.finditer(text)) + sum(1 for _ in _TAG.finditer(text))


ESTIMATE = Tokenizer(
    "estimate: pre-tokenizer pieces, words cut at 7 letters, punctuation at 3 characters",
    _estimate,
)
"""Cuts text as the published byte-pair tokenizers do before they merge. It ranks formats; a
price for one model needs that model's vocabulary."""

# How a text is cut before its bytes are merged. Sources: OpenAI's tiktoken package,
# `tiktoken_ext/openai_public.py` (cl100k_base), and Qwen's `tokenization_qwen.py`, which
# differs from it in cutting numbers into single digits.
_CUTS = {
    "cl100k": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def tokenizer_from(path: Path) -> Tokenizer:
    """The byte-pair encoding whose ranks are in `path`.

    The name of the file decides how text is cut: ``qwen*`` as Qwen does, anything else as
    cl100k_base does.

    Raises
    ------
    BadVocabulary
        The file cannot be read, is no rank file, or the package tiktoken is missing.
    """
    try:
        import tiktoken
    except ImportError as error:
        raise BadVocabulary(
            "a tokenizer needs the package tiktoken: pip install tiktoken"
        ) from error
    cut = "qwen" if path.name.lower().startswith("qwen") else "cl100k"
    try:
        ranks = _ranks(path)
        encoding = tiktoken.Encoding(
            path.stem, pat_str=_CUTS[cut], mergeable_ranks=ranks, special_tokens={}
        )
    except OSError as error:
        raise BadVocabulary(f"cannot read {path}: {error.strerror}") from error
    return Tokenizer(
        f"{path.stem}, {len(ranks):,} tokens", lambda text: len(encoding.encode_ordinary(text))
    )


def _ranks(path: Path) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise BadVocabulary(
                f"{path}: line {number}: not a token in base64 and its rank"
            ) from error
    missing = sum(bytes([byte]) not in ranks for byte in range(256))
    if missing:
        raise BadVocabulary(f"{path}: {missing} of the 256 bytes have no rank")
    return ranks
