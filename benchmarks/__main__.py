"""Runs the benchmarks by name, or all of them: `python -m benchmarks [NAME …]`.

Each prints its figures as JSON, one object a line, and exits 1 when a bound is broken.
"""

from __future__ import annotations

import importlib
import sys

NAMES = ("startup", "responsive", "overhead", "fold", "kills")


def main() -> int:
    wanted = sys.argv[1:] or list(NAMES)
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    held = [importlib.import_module(f"benchmarks.{name}").run() for name in wanted]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
