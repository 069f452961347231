"""Hashline: a kernel file shown with a tag on every line, and edited by those tags.

Owns every change to kernel text. It works on values in memory; its only effect is the
file swap in `file_swap`. It never guesses: a stale or ambiguous edit changes nothing.
"""

from akg_tui.hashline.anchors import untagged_lines
from akg_tui.hashline.document import Document, NotText
from akg_tui.hashline.file_swap import FileChanged, swap_file
from akg_tui.hashline.ops import EDIT_SCHEMA, BadEdit, parse_ops
from akg_tui.hashline.rejection import EditRejected
from akg_tui.hashline.session import EditRequest, EditSession, apply
from akg_tui.hashline.splice import EditResult
from akg_tui.hashline.tagged_view import BadRange, render, render_result
from akg_tui.hashline.tags import Tagger

__all__ = [
    "EDIT_SCHEMA",
    "BadEdit",
    "BadRange",
    "Document",
    "EditRejected",
    "EditRequest",
    "EditResult",
    "EditSession",
    "FileChanged",
    "NotText",
    "Tagger",
    "apply",
    "parse_ops",
    "render",
    "render_result",
    "swap_file",
    "untagged_lines",
]
