"""The judge's secret draws: one source of random numbers, which a test can fix.

The seed of each set of inputs, the sizes of hidden shapes and the order of measurements come from
here. Tests set `FIXED_BY`, so that a kernel meets the same draws each time. A user does not: a
process of the kernel inherits it.
"""

import os
import random

FIXED_BY = "AKG_TUI_DRAWS"
"""The environment variable that fixes all draws of a process to its text; for tests only."""

_fixed: dict[str, random.Random] = {}


def secret_bits(bits: int) -> int:
    """Return an integer of `bits` random bits."""
    text = os.environ.get(FIXED_BY)
    if text is None:
        return random.SystemRandom().getrandbits(bits)
    if text not in _fixed:
        _fixed.clear()
        _fixed[text] = random.Random(text)
    return _fixed[text].getrandbits(bits)


def fixed_draws() -> dict[str, str]:
    """Return the environment that hands fixed draws on to a process of the judge."""
    return {FIXED_BY: os.environ[FIXED_BY]} if FIXED_BY in os.environ else {}


def secret_random() -> random.Random:
    """Return a generator with a secret seed."""
    return random.Random(secret_bits(64))
