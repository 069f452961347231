"""Inputs of a definition that point into others: offsets of sequences, pages of a cache, slots.

Workloads store such integers in files, or there is no workload. Here they are drawn, anew at every
call. The names of inputs and axes in FlashInfer Trace tell what they point to. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TOTALS = {
    "qo_indptr": ("total_q",),
    "kv_indptr": ("num_kv_indices", "total_kv"),
    "cu_seqlens": ("total_seq_len",),
}
"""Offsets of sequences, each with the axes one of which its last element is."""

POOLS = ("num_pages", "state_cache_size", "pool_size", "max_seq_len")
"""The axes of which indices choose elements."""

CUSTOM = "custom_inputs_entrypoint"

PAGE = "page_size"
LAST_PAGE = "last_page_len"

SEQUENCES = 8
"""The sequences of a batch, for a definition without workloads."""

ELEMENTS = 512
"""The keys of all these sequences, if a page holds one; otherwise there are `EXTENT` pages."""

EXTENT = 64
"""The extent of any other axis that varies, for such a definition."""

_ONE_MORE = re.compile(r"(\w+) == (\w+) \+ 1")

HELPER = Path(__file__).with_suffix(".txt").read_text("utf-8")
"""Code that `preparation` needs in the reference."""

Definition = Mapping[str, Any]


def totals(plain: Definition) -> dict[str, str]:
    """Return the inputs that are offsets, each with the axis that its last element is."""
    if plain.get(CUSTOM):
        return {}
    axes = plain["axes"]
    return {
        name: next(each for each in TOTALS[name] if each in axes)
        for name, spec in plain["inputs"].items()
        if len(spec.get("shape") or ()) == 1 and set(TOTALS.get(name, ())) & axes.keys()
    }


def derived_axes(plain: Definition) -> dict[str, str]:
    """Return the axes that a constraint gives as another axis and one, as expressions."""
    stated, axes = plain.get("constraints"), plain["axes"]
    found = map(_ONE_MORE.fullmatch, map(str, stated) if isinstance(stated, list) else ())
    return {m[1]: f"{m[2]} + 1" for m in found if m and m[1] in axes and m[2] in axes}


def assumed_extent(plain: Definition, axis: str) -> int:
    """Return the extent of an axis that varies, for a definition without workloads."""
    offsets = totals(plain)
    lengths = {str(plain["inputs"][name]["shape"][0]) for name in offsets}
    if axis in lengths:
        return SEQUENCES + 1
    if offsets and axis in ("batch_size", "num_seqs"):
        return SEQUENCES
    paged = plain["axes"].get(PAGE, {}).get("value") not in (None, 1)
    *_, keys = ("", *offsets.values())
    if offsets and not paged and axis in (keys, "num_pages"):
        return ELEMENTS
    return EXTENT


def drawn(plain: Definition) -> dict[str, str]:
    """Return the inputs that can be drawn so, each with an expression of the axes.

    None of a definition with a function that draws the inputs.
    """
    if plain.get(CUSTOM):
        return {}
    offsets, axes = totals(plain), plain["axes"]
    pool = next((each for each in POOLS if each in axes), "")
    found: dict[str, str] = {}
    for name, spec in plain["inputs"].items():
        if spec.get("dtype") not in ("int32", "int64") or not spec.get("shape"):
            continue
        size = ", ".join(map(str, spec["shape"]))
        typed = f"dtype=torch.{spec['dtype']}"
        if name in offsets:
            found[name] = f"torch.tensor({name}, {typed})"
        elif name.endswith(LAST_PAGE) and PAGE in axes:
            found[name] = f"torch.randint(1, {PAGE} + 1, ({size},), {typed})"
        elif (name.endswith("indices") or name == "positions") and pool:
            found[name] = _indices(spec, size, pool, typed, paged=PAGE in axes)
    return found


def _indices(spec: Mapping[str, Any], size: str, pool: str, typed: str, *, paged: bool) -> str:
    if len(spec["shape"]) == 1:
        # Different ones where there are enough.
        code = f"(torch.randperm(max({pool}, {size}))[:{size}] % {pool}).to(torch.{spec['dtype']})"
    else:
        last = f"{pool} * {PAGE}" if paged else pool
        code = f"torch.randint(0, {last}, ({size}), {typed})"
    if "-1" in str(spec.get("description", "")):
        # Padding: a tenth of them.
        return f"torch.where(torch.rand({size}) < 0.1, -1, {code})"
    return code


def preparation(plain: Definition) -> str:
    """Return the statements that the expressions of `drawn` need before them, a line each."""
    lines = ""
    offsets = totals(plain)
    rows = {name: str(plain["inputs"][name]["shape"][0]) for name in offsets}
    for length in dict.fromkeys(rows.values()):
        names = [name for name in offsets if rows[name] == length]
        ends = ", ".join(offsets[name] for name in names)
        targets = ", ".join(names) if len(names) > 1 else f"({names[0]},)"
        lines += f"    {targets} = _offsets({length}, {ends})\n"
    return lines
