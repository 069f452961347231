"""A module for judges: each timed process is called often, on a busy machine too.

There the judge takes a call for longer than it is, and calls a process 13 times instead of 40. A
kernel that is right in its first 24 calls would then be right in all.
"""

from akg_tui.evaluate import timing_samples

timing_samples.PAIRS = timing_samples.PAIRS_MOST
