"""Runs the benchmarks by name, or all of them: `python -m benchmarks [NAME …] [OPTIONS]`.

Each prints its figures as JSON, one object a line, and exits 1 when a bound is broken.
"""

from __future__ import annotations

import importlib
import sys

NAMES = ("startup", "responsive", "same", "fold", "kills", "soak")


def main() -> int:
    words = sys.argv[1:]
    # What follows an option is for the benchmark itself.
    options = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    wanted = words[:options] or list(NAMES)
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    held = [importlib.import_module(f"benchmarks.{name}").run() for name in wanted]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
