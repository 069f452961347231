"""First kernels: `ModelNew` made from the code of the reference's own `Model`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from akg_tui.problems.module_text import bound_by, needed_for, renamed, without
from akg_tui.store.errors import BadTask
from akg_tui.store.reference_constants import with_constants, with_gradients

HEAD = """\
# The first kernel: ModelNew does what Model of reference.py does, by the same code.
# Made by `akg-tui new`; everything in this file may be changed.
"""


UNWRITTEN = """\
# No kernel yet: the agent writes class ModelNew here, in the DSL of task.toml (there:
# workflow = "write_then_tune"). Tune it with a model: akg-tui tune FOLDER --agent claude
"""
"""The kernel file of a task whose first kernel the agent is to write."""


def kernel_from(
    path: Path,
    reference: str,
    constants: Mapping[str, int | float],
    gradients: Sequence[str] = (),
) -> str:
    """Return a kernel that computes what the reference computes and imports nothing of it.

    `path` is for messages. Raises `BadTask` if the file has a `ModelNew` that `Model` needs.
    """
    text = model_text(reference, constants, gradients)
    for statement in ast.parse(text).body:
        if "ModelNew" in bound_by(statement):
            message = "is bound in the reference too: state a first kernel with --seed FILE"
            raise BadTask(path, statement.lineno, "ModelNew", message)
    return HEAD + "\n" + renamed(text, "Model", "ModelNew")


def model_text(
    reference: str, constants: Mapping[str, int | float], gradients: Sequence[str] = ()
) -> str:
    """Return what `Model` needs of a reference, with what its task changes."""
    source = with_gradients(with_constants(reference, constants), gradients)
    module = ast.parse(source)
    kept = {id(each) for each in needed_for(module, {"Model"})}
    order = [id(each) in kept for each in module.body]
    dropped = {each.lineno for each, keeps in zip(module.body, order, strict=True) if not keeps}
    return without(source, lambda each: each.lineno in dropped)
