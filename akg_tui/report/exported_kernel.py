"""Reads the best kernel of a run and returns the files of an export. Writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from akg_tui.core.sanitize import one_line
from akg_tui.core.summary import best_of
from akg_tui.report.export_forms import FORMS, Exported, Form
from akg_tui.store.errors import RunFolderError
from akg_tui.store.reference_constants import as_judged
from akg_tui.store.run_at_rest import RunAtRest
from akg_tui.store.run_folder import read_reference


@dataclass(frozen=True)
class Export:
    """The files of a form, and a line on them."""

    op: str
    told: str
    form: Form


def exported(path: Path, form: str) -> Export:
    """Return the best kernel of the run at `path` in a form of `FORMS`.

    Raises `StoreError` if the folder is no run, has no correct kernel, or the kernel does not fit
    the form.
    """
    run = RunAtRest(path)
    state = run.state
    if state.best is None:
        raise RunFolderError("{path}: has no correct kernel to export", path=path)
    reference = as_judged(read_reference(path, state), state.task)
    ratios = best_of(state)
    told = f"The best kernel of {path.resolve().name}, attempt {state.best.attempt}"
    told = one_line(f"{told}: {ratios.line}" if ratios else told)
    given = Exported(state.task, run.kernel(state.best.blob).texts, reference, told)
    return Export(state.task.op, told, FORMS[form](given))
