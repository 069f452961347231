"""Cases of a problem: which of the many that a task set lists become cases of the task, and names.

Pure. A case is stated as the numbers at the top level of the reference that differ in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from akg_tui.core.task import Case

MOST = 8
"""The most cases of a new task; more make every evaluation longer."""

GROUP = "INPUT_GROUP"
"""The number at the top level of a reference that chooses one of its groups of inputs."""

_NAME = re.compile(r"[^\W_][\w.-]{0,31}")

Values = Mapping[str, int | float]


def spread(count: int) -> list[int]:
    """Return at most `MOST` positions out of `count`: the first, the last, and some between."""
    if count <= MOST:
        return list(range(count))
    return [round(at * (count - 1) / (MOST - 1)) for at in range(MOST)]


def cases_of(listed: Sequence[Values]) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """Return some of the listed cases, named by what differs, and what is left out, in words.

    One case, or several that are all equal, are none.
    """
    different = [each for at, each in enumerate(listed) if each not in listed[:at]]
    if len(different) < 2:
        return (), ()
    chosen = [different[at] for at in spread(len(different))]
    differing = [name for name in chosen[0] if len({each[name] for each in chosen}) > 1]
    names = ["-".join(f"{n.lower()}{each[n]:g}" for n in differing) for each in chosen]
    if len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
        names = [f"case{at + 1}" for at in spread(len(different))]
    left_out = len(different) - len(chosen)
    told = (f"{len(different)} cases: {len(chosen)} of them are tuned",) if left_out else ()
    cases = tuple(
        Case(name, {n: each[n] for n in differing})
        for name, each in zip(names, chosen, strict=True)
    )
    return cases, told


def numeric_cases(
    listed: Sequence[Mapping[str, object]],
) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """Return some of the listed cases as `cases_of` does, of those that are like the first.

    A case is like the first if the two differ in numbers only.
    """
    first = listed[0]
    numbers = [name for name, value in first.items() if _is_number(value)]
    found: list[Values] = []
    for each in listed:
        values = {name: value for name in numbers if _is_number(value := each.get(name))}
        same = all(each.get(name) == first[name] for name in first if name not in numbers)
        if same and len(values) == len(numbers) and each.keys() == first.keys():
            found.append(values)
    cases, told = cases_of(found)
    unlike = len(listed) - len(found)
    left_out = f"{unlike} of {len(listed)} cases differ from the first in more than numbers"
    return cases, (*([f"{left_out}: they are left out"] if unlike else []), *told)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def groups(count: int) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """Return cases that each choose a group of inputs by its number."""
    cases, told = cases_of([{GROUP: at} for at in range(count)])
    return tuple(Case(f"group{case.sizes[GROUP] + 1:g}", case.sizes) for case in cases), told
