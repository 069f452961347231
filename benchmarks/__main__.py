"""Runs the benchmarks by name, or all of them: `python -m benchmarks [NAME …] [OPTIONS]`.

Each prints its figures as JSON, one object a line, and exits 1 when a bound is broken.
One name may be followed by that benchmark's own options.
"""

from __future__ import annotations

import importlib
import sys

NAMES = (
    "startup",
    "responsive",
    "workbench",
    "review",
    "overhead",
    "fold",
    "past",
    "context",
    "kills",
    "crashlab",
    "soak",
    "report",
)


def main() -> int:
    words = sys.argv[1:]
    if len(words) > 1 and words[1].startswith("-") and words[0] in NAMES:
        return 0 if importlib.import_module(f"benchmarks.{words[0]}").main(words[1:]) else 1
    wanted = words or list(NAMES)
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    held = [importlib.import_module(f"benchmarks.{name}").run() for name in wanted]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
