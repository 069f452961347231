"""The page of a proof, in Markdown: what a person hands back beside the JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.hardware.prove import Proof, Rate


def page(proof: Proof) -> str:
    """Return the page."""
    return "\n".join(_lines(proof)) + "\n"


def _lines(proof: Proof) -> Iterator[str]:
    held = "held" if proof.held else "NOT held"
    yield f"# Target `{proof.target}` on `{proof.device}`: {held}"
    yield ""
    yield f"Judge `{proof.judge}`."
    if proof.error:
        yield f"It ended early: {proof.error}"
    yield ""
    yield from _table(("Machine", ""), sorted(proof.environment.items()))
    yield "## Kernels with a known verdict"
    kinds = sorted({each.kind for each in proof.verdicts})
    yield from _table(
        ("Kind", "Right", "Of"),
        [
            (kind, sum(each.right for each in of), len(of))
            for kind in kinds
            for of in [[each for each in proof.verdicts if each.kind == kind]]
        ],
    )
    wrong = [each for each in proof.verdicts if not each.right]
    for each in wrong:
        yield f"- WRONG: {each.kind}, {each.name}: {each.found}"
    if wrong:
        yield ""
    yield "## Rates"
    rates = [rate for rate in (proof.equal, proof.gain) if rate is not None]
    yield from _table(
        ("True gain", "Kept", "Rate, 95 %", "Failed", "Ratios, median", "Seconds, median"),
        map(_rate, rates),
    )
    yield "## Samples against PyTorch's eager mode"
    yield from _table(
        ("Sample", "Found", "Over eager", "Kernel ms", "Eager ms"),
        [
            (each.name, each.found, _ratio(each.over_eager, each.low, each.high),
             _number(each.kernel_ms), _number(each.eager_ms))
            for each in proof.samples
        ],
    )  # fmt: skip


def _rate(rate: Rate) -> tuple[object, ...]:
    ratios = _ratio(rate.ratio_median, rate.ratio_lowest, rate.ratio_highest)
    return (
        f"{rate.true_gain:.0%}", f"{rate.kept} of {rate.trials}",
        f"{rate.low:.1%} to {rate.high:.1%}", rate.failed, ratios, f"{rate.seconds_median:.1f}",
    )  # fmt: skip


def _ratio(middle: float | None, low: float | None, high: float | None) -> str:
    if middle is None or low is None or high is None:
        return "not timed"
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    told = [" | ".join(str(cell).replace("|", "/") for cell in row) for row in rows]
    if not told:
        yield "None."
    else:
        yield f"| {' | '.join(head)} |"
        yield "|" + "---|" * len(head)
        yield from (f"| {row} |" for row in told)
    yield ""
