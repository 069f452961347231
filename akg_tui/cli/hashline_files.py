"""`view` and `edit`: hashline commands on one file, without a run.

The commands read and write no run folder and start no judge.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from akg_tui.cli.run_options import positive
from akg_tui.cli.usage_error import EXIT_BAD_INPUT, EXIT_OK, UsageError, fail, read_text


def add_file_commands(add: Callable[..., Any]) -> None:
    """Declare `view` and `edit`; `add` creates a command."""
    view = add("view", _view, "print a file with hashline tags")
    view.add_argument("file", type=Path)
    view.add_argument("--first", type=positive, default=1, metavar="N", help="first line to show")
    view.add_argument("--last", type=positive, metavar="N", help="last line to show")
    _tagging(view)

    edit = add("edit", _edit, "apply hashline operations to a file, all or none")
    edit.add_argument("file", type=Path)
    edit.add_argument("--ops", type=Path, required=True, help="a JSON file: a list of operations")
    edit.add_argument(
        "--sha",
        help="refuse unless the file's sha (the first line of `view`) is SHA; needed where an "
        "operation removes lines whose tags it does not give",
    )
    edit.add_argument(
        "--allow-dup", action="store_true", help="accept new lines that repeat a neighbouring line"
    )
    edit.add_argument(
        "--allow-broken",
        action="store_true",
        help="accept an edit after which a Python file no longer parses",
    )
    _tagging(edit)


def _tagging(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--tags",
        choices=["bigram", "hex"],
        default="bigram",
        help="how a tag is written: 2sr| or 2:f1| (default: bigram)",
    )


FILE_KEY = b"akg-tui view"  # a constant, so that tags of `view` and `edit` agree between calls


def _view(arguments: argparse.Namespace) -> int:
    from akg_tui.core.sanitize import split_clean
    from akg_tui.hashline import BadRange, Document, NotText, Tagger, render

    path: Path = arguments.file
    try:
        document = Document.from_bytes(path.read_bytes(), path=str(path))
        tagger = Tagger(FILE_KEY, arguments.tags)
        view = render(document, tagger, first=arguments.first, last=arguments.last)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (BadRange, NotText) as error:
        fail(error)
    print("\n".join(split_clean(view)))
    return EXIT_OK


def _edit(arguments: argparse.Namespace) -> int:
    import json

    from akg_tui import hashline
    from akg_tui.core.sanitize import split_clean
    from akg_tui.hashline import BadEdit, EditRejected, FileChanged, NotText

    path: Path = arguments.file
    try:
        raw = json.loads(read_text(arguments.ops))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{arguments.ops}: not JSON: {error}") from error
    try:
        ops = hashline.parse_ops(raw)
        if not arguments.sha and (lines := hashline.untagged_lines(ops)):
            raise UsageError(
                f"nothing was written: {arguments.ops} removes line {lines[0]} of {path} without "
                "its tag; give --sha (the first line of `view`), or an operation for each line"
            )
        document = hashline.Document.from_bytes(path.read_bytes(), path=str(path))
        sha: str = arguments.sha or document.sha256
        if len(sha) < 8 or not document.sha256.startswith(sha.lower()):
            raise UsageError(
                f"nothing was written: {path} has sha {document.sha256[:8]}, not "
                f"{sha[:64]!r}; view it again and take its tags"
            )
        result = hashline.apply(
            document,
            hashline.Tagger(FILE_KEY, arguments.tags),
            ops,
            allow_dup=arguments.allow_dup,
            allow_broken=arguments.allow_broken,
        )
        hashline.swap_file(path, result.document.data, expected_sha256=document.sha256)
    except OSError as error:
        raise UsageError(f"cannot change {path}: {error.strerror}") from error
    except (BadEdit, EditRejected, FileChanged, NotText) as error:
        print("akg-tui: " + "\n".join(split_clean(str(error))), file=sys.stderr)
        return EXIT_BAD_INPUT
    print(f"OK: +{result.added} -{result.removed} lines in {path}")
    return EXIT_OK
