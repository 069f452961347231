"""The options for the appearance and the keys of the workbench, and the command `keys`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from akg_tui.cli.usage_error import EXIT_BAD_INPUT, EXIT_OK, UsageError

if TYPE_CHECKING:
    from akg_tui.engine.run_handle import RunHandle
    from akg_tui.view.controls.preferences import Preferences

SCREENLESS = ("dumb", "unknown")
"""Values of TERM, by terminfo, of a terminal that cannot place its cursor."""


def is_served() -> bool:
    """Return whether a browser is this process's terminal."""
    return "web_driver" in os.environ.get("TEXTUAL_DRIVER", "")


def no_screen() -> str:
    """Return why the workbench cannot be shown here, or "". Call before it replaces stdout."""
    if is_served():
        return ""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "there is no terminal"
    kind = os.environ.get("TERM", "")
    return f"the terminal cannot show a screen (TERM={kind})" if kind in SCREENLESS else ""


def add_appearance(command: argparse.ArgumentParser) -> None:
    """Add the options that every command that opens the workbench takes."""
    looks = command.add_argument_group(
        "the workbench", "each also as AKG_TUI_<NAME>, or in config.toml (docs/looks.md)"
    )
    looks.add_argument("--theme", metavar="NAME", help="colours")
    looks.add_argument("--keymap", metavar="NAME", help="default, vim, emacs, or your own")
    looks.add_argument("--lang", choices=["en", "zh"], help="language (default: the locale's)")
    looks.add_argument("--ascii", action="store_true", help="use only ASCII characters")
    looks.add_argument(
        "--reduced-motion", action="store_true", help="redraw at most 4 times a second"
    )


def wanted(arguments: argparse.Namespace) -> Preferences:
    """Return the preferences; options take precedence. Raises `UsageError` for a bad name."""
    from akg_tui import resources
    from akg_tui.store.user_files.user_folders import config_folder
    from akg_tui.view.controls import keymap
    from akg_tui.view.controls.preferences import preferences

    config = config_folder()
    if arguments.theme:
        folders = (resources.themes(), config / "themes")
        known = sorted({path.stem for folder in folders for path in folder.glob("*.toml")})
        if arguments.theme not in known:
            raise UsageError(f"no theme {arguments.theme!r}; there are: {', '.join(known)}")
    if arguments.keymap:
        known = keymap.names((keymap.BUNDLED, config / "keymaps"))
        if arguments.keymap not in known:
            raise UsageError(f"no keymap {arguments.keymap!r}; there are: {', '.join(known)}")
    return preferences(
        {
            "theme": arguments.theme,
            "keymap": arguments.keymap,
            "lang": arguments.lang,
            "glyphs": "ascii" if arguments.ascii else None,
            "motion": "reduced" if arguments.reduced_motion else None,
        }
    )


def show_workbench(open_run: Callable[[], Awaitable[RunHandle]] | None, **options: Any) -> int:
    """Show the workbench (`akg_tui.tui.app.WorkbenchApp`) until it ends; return the exit code."""
    from akg_tui.tui.garbage_collection import hold

    hold()
    from akg_tui.tui.app import WorkbenchApp

    code = WorkbenchApp(open_run, **options).run()
    return EXIT_BAD_INPUT if code is None else code


def add_keys(add: Callable[..., Any]) -> None:
    """Declare `keys`; `add` creates a command."""
    keys = add("keys", _keys, "list all commands of the workbench with their keys")
    keys.add_argument("--keymap", metavar="NAME", help="default: the one you prefer")
    form = keys.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="the page docs/keys.md")
    form.add_argument("--toml", action="store_true", help="print a keymap file as a template")


def _keys(arguments: argparse.Namespace) -> int:
    from akg_tui.store.user_files.user_folders import config_folder
    from akg_tui.tui import keyboard
    from akg_tui.view.controls import keymap, keys_page
    from akg_tui.view.controls.preferences import preferences

    asked = preferences()
    if arguments.markdown:
        print(keys_page.markdown(), end="")
        return EXIT_OK
    name = arguments.keymap or asked.keymap or keymap.DEFAULT
    places = keyboard.folders(config_folder())
    if keymap.find(name, places) is None:
        raise UsageError(f"no keymap {name!r}; there are: {', '.join(keymap.names(places))}")
    faults = keyboard.apply_keymap(name, places, asked.keys, asked.config)
    print(keys_page.toml() if arguments.toml else keys_page.table(), end="")
    for fault in faults:
        print(f"akg-tui: {fault}", file=sys.stderr)
    return EXIT_OK
