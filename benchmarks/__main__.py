"""Runs the benchmarks by name, or all of them: `python -m benchmarks [NAME …] [OPTIONS]`.

Each prints its figures as JSON, one object a line, and exits 1 when a bound is broken.
One name may be followed by that benchmark's own options. Those of `LONG` run only when named.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

# The module of each benchmark; all of them run in this order.
MODULES = {
    "startup": "workbench.startup",
    "responsive": "workbench.responsive",
    "workbench": "workbench.views",
    "review": "workbench.review",
    "overhead": "judge.overhead",
    "cpp_gate": "cpp_gate",
    "fold": "fold",
    "past": "workbench.past",
    "agreement": "agreement",
    "context": "context",
    "trial_twin": "trial_twin",
    "kills": "kills",
    "suite_kills": "suite_kills",
    "crashlab": "crashlab.lab",
    "honest": "judge.honest",
    "honest_draws": "judge.honest_draws",
    "soak": "judge.soak",
    "device_soak": "judge.device_soak",
    "report": "report",
    "memory": "memory",
}
# Those that take long, and take their own options.
LONG = {
    "problems": "problems",
    "samples": "samples",
    "newcomer": "newcomer",
    "cuda_reports": "cuda.reports",
    "triton_samples": "triton_samples",
    "suite_cluster": "suite_cluster",
    "equal_agents": "agents.equal_agents",
    "ascend_report": "ascend_report",
    "cheats": "judge.cheats",
}


def main() -> int:
    os.environ.setdefault("AKG_TUI_MEMORY", "off")  # each run begins with nothing
    words = sys.argv[1:]
    if words and words[0] in LONG:
        return 0 if importlib.import_module(f"benchmarks.{LONG[words[0]]}").main(words[1:]) else 1
    if len(words) > 1 and words[1].startswith("-") and words[0] in MODULES:
        return 0 if _module(words[0]).main(words[1:]) else 1
    wanted = words or list(MODULES)
    unknown = [name for name in wanted if name not in MODULES]
    if unknown:
        print(
            f"no benchmark {', '.join(unknown)}; there are: {', '.join(MODULES)}", file=sys.stderr
        )
        return 2
    held = [_module(name).run() for name in wanted]
    return 0 if all(held) else 1


def _module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.{MODULES[name]}")


if __name__ == "__main__":
    sys.exit(main())
