"""The parse gate: a Python file that parsed before an edit must parse after it.

Files of other languages pass: of C++, the compiler tells what is wrong. A file that was faulty
before an edit may stay so. The gate decides, and changes nothing.
"""

from __future__ import annotations

import symtable
import warnings
from dataclasses import dataclass

from akg_tui.hashline.document import Document
from akg_tui.hashline.splice import EditResult
from akg_tui.syntax.grammars import grammar_of


@dataclass(frozen=True, slots=True)
class Fault:
    """The first syntax error of a text; `line` counts from 1."""

    line: int
    message: str


def newly_broken(before: Document, result: EditResult) -> Fault | None:
    """Return the fault that the edit made; None if there is none, or if one existed before."""
    if grammar_of(before.path) != "python":
        return None
    fault = python_fault(result.document.data)
    return fault if fault and python_fault(before.data) is None else None


def python_fault(data: bytes) -> Fault | None:
    """Return the first syntax error, from `symtable`, which builds neither a tree nor code."""
    try:
        # The parser warns about invalid escapes on stderr, which may be the workbench's screen.
        with warnings.catch_warnings(action="ignore"):
            symtable.symtable(data, "<kernel>", "exec")  # type: ignore[arg-type]  # takes bytes
    except SyntaxError as error:
        return Fault(error.lineno or 1, error.msg)
    except ValueError as error:  # NUL bytes
        return Fault(1, str(error))
    except (RecursionError, MemoryError):
        return Fault(1, "nested too deeply")
    return None
