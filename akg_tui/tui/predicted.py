"""The gain that a plan item promises in its words, to stand beside the measured one.

Pure. Reads only what is plainly a promise: a signed or approximate percentage, or a factor.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NUMBER = r"(\d+(?:\.\d+)?)"
_HOPE = r"(?:expect\w*|predict\w*|promis\w*|should give|hope\w*|gain\w*|up to|about)"
_PERCENT = re.compile(
    rf"(?:[~≈]\s*)?(?<![\d.])([+\-−]|[~≈]|{_HOPE}\s+)\s*[~≈]?\s*{_NUMBER}\s*%", re.I
)
_FACTOR = re.compile(rf"(?:[~≈]|{_HOPE})\s*{_NUMBER}\s*(?:x\b|×)", re.I)
_SLOWER = re.compile(r"^\s*(?:slower|worse)", re.I)
_MOST = 100.0


@lru_cache(maxsize=4096)
def predicted(*texts: str) -> float | None:
    """The promised ratio against the best, above 1 for faster; None where none is promised.

    The first of `texts` that promises one counts: ``+6 %`` and ``expect 6 %`` are 1.06,
    ``~1.2x`` is 1.2.
    """
    for text in texts:
        if found := _PERCENT.search(text):
            share = float(found[2]) / 100
            less = found[1] in "-−" or _SLOWER.match(text[found.end() :])
            ratio = 1 - share if less else 1 + share
        elif found := _FACTOR.search(text):
            ratio = float(found[1])
        else:
            continue
        if 0 < ratio <= _MOST:
            return ratio
    return None
