"""Colour themes: read `themes/*.toml`, each a palette and a style for every role of text.

A theme file of the user replaces a shipped theme with the same name. Two line filters, the last
step of painting, remove colours or characters beyond ASCII.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.color import Color as RichColor
from rich.errors import StyleSyntaxError
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.strip import Strip
from textual.theme import BUILTIN_THEMES
from textual.theme import Theme as TextualTheme

from akg_tui import resources
from akg_tui.core.sanitize import clean
from akg_tui.store.user_files.user_folders import config_folder
from akg_tui.view.spans import Line

DEFAULT = "ember"

PALETTE = (
    *("ground", "raised", "line", "ink", "ash", "smoke", "flame", "gold"),
    *("moss", "rust", "steel", "lilac", "teal", "moss_deep", "rust_deep", "gold_deep"),
)

ROLES = (
    *("text", "strong", "muted", "faint", "accent", "title", "brand", "figure"),
    *("phase.done", "phase.live", "phase.wait", "phase.next", "phase.idle", "phase.rule"),
    *("progress", "progress.rest", "mode.auto", "mode.review", "mode.step"),
    *("verdict.keep", "verdict.discard", "verdict.fail"),
    *("item.pending", "item.active", "item.suspended", "item.dropped"),
    *("number", "tag", "diff.added", "diff.removed", "diff.added.mark", "diff.removed.mark"),
    *("diff.added.word", "diff.removed.word"),
    *("diff.gap", "chart.best", "chart.band", "chart.error", "chart.axis", "chart.live"),
    *("log.model", "log.tool", "log.you", "log.error", "log.rule"),
    *("key", "key.label", "ask", "note"),
    *("syn.keyword", "syn.string", "syn.number", "syn.comment", "syn.function", "syn.type"),
    *("syn.operator", "syn.preproc"),
)


SIXTEEN = "ansi16"
"""The theme whose colours every theme has in a terminal of sixteen."""

OF_256 = "palette256"
"""The table of a theme with its colours in a terminal of 256, as numbers from 16 to 255."""

NO_STYLE = Style.null()

_ANSI = "ansi_"
_HUES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_ANSI_NAMES = frozenset({"default", *_HUES, *(f"bright_{hue}" for hue in _HUES)})


_COLOUR = rf"^(#[0-9a-fA-F]{{6}}|{_ANSI}({'|'.join(sorted(_ANSI_NAMES))}))\Z"


class BadTheme(ValueError):
    """A theme's file that cannot be used; the message is `FILE:LINE: field: what is wrong`."""


@dataclass(frozen=True)
class Theme:
    """A valid theme: every palette colour and every role is present and parses."""

    name: str
    about: str
    dark: bool
    palette: Mapping[str, str]
    roles: Mapping[str, Style]
    path: Path | None = None

    @property
    def ansi(self) -> bool:
        """Whether the colours are the sixteen colours of the terminal."""
        return self.palette["ground"].startswith(_ANSI)

    @property
    def grey(self) -> bool:
        """Whether the theme has no hue."""
        colours = self.palette.values()
        return not self.ansi and all(c[1:3] == c[3:5] == c[5:7] for c in colours)

    def for_textual(self) -> TextualTheme:
        """Return these colours for Textual's own parts: borders, scrollbars, the palette."""
        colour = self.palette
        return TextualTheme(
            name=self.name,
            dark=self.dark,
            ansi=self.ansi,
            primary=colour["flame"],
            secondary=colour["teal"],
            accent=colour["gold"],
            warning=colour["gold"],
            error=colour["rust"],
            success=colour["moss"],
            foreground=colour["ink"],
            background=colour["ground"],
            surface=colour["raised"],
            panel=colour["raised"],
            variables={
                **(BUILTIN_THEMES["ansi-dark"].variables if self.ansi else {}),
                **{f"ink-{name.replace('_', '-')}": value for name, value in colour.items()},
                "scrollbar": colour["line"],
                "scrollbar-hover": colour["smoke"],
                "scrollbar-active": colour["flame"],
                "scrollbar-background": colour["ground"],
                "scrollbar-background-hover": colour["ground"],
                "scrollbar-background-active": colour["ground"],
                "scrollbar-corner-color": colour["ground"],
                "block-cursor-background": colour["flame"],
                "block-cursor-foreground": "ansi_black" if self.ansi else colour["ground"],
                "input-selection-background": colour["gold_deep"],
            },
        )


class Inks:
    """Paints lines with one theme. All text is cleaned of control characters."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self._styles: dict[str, Style] = dict(theme.roles)
        self._grounded: dict[tuple[str, Style], Style] = {}

    def style(self, role: str) -> Style:
        """Return the style of a role, or of several roles joined with ``|``."""
        style = self._styles.get(role)
        if style is None:
            style = Style.combine([self._styles[part] for part in role.split("|")])
            self._styles[role] = style
        return style

    @property
    def picked(self) -> Style:
        """The style of a picked row. Bold marks the row where its background does not differ."""
        return Style(bgcolor=self.theme.palette["gold_deep"].removeprefix(_ANSI), bold=True)

    def strip(self, spans: Line, ground: Style = NO_STYLE) -> Strip:
        """Paint the spans on `ground`, which supplies the attributes that a role leaves unset."""
        return Strip([Segment(clean(text), self._on(role, ground)) for text, role in spans])

    def _on(self, role: str, ground: Style) -> Style:
        style = self._grounded.get((role, ground))
        if style is None:
            style = self._grounded[role, ground] = ground + self.style(role)
        return style


class Inked:
    """An app that supplies the colours of its widgets."""

    @property
    def inks(self) -> Inks:
        """The colours in use."""
        raise NotImplementedError


def load(path: Path, colours: int | None = None) -> Theme:
    """Read the theme in `path`. Raises `BadTheme`.

    `colours` is the number of colours of the terminal, 16 or 256; None means 24-bit colours. Of 256
    the theme's own choice is used, because the nearest colour often has another hue. Sixteen are
    the terminal's own, so that every theme looks alike.
    """
    if path.parent == resources.themes():
        content = _shipped(path.read_text("utf-8"))
    else:
        from akg_tui.store.errors import BadFile
        from akg_tui.tui.theme_file import checked

        try:
            content = checked(path, _COLOUR)
        except BadFile as error:
            raise BadTheme(str(error)) from error
    for table in ("palette", OF_256):
        given = content.get(table, content["palette"])
        if missing := [name for name in PALETTE if name not in given]:
            raise _bad(path, table, f"lacks {', '.join(missing)}")
    palette = {name: content["palette"][name] for name in PALETTE}
    if colours == 256 and OF_256 in content:
        palette = {name: _sent_as(content[OF_256][name]) for name in PALETTE}
    theme = Theme(
        name=content.get("name", path.stem),
        about=content.get("about", ""),
        dark=content.get("dark", True),
        palette=palette,
        roles=_roles(path, content.get("roles", {}), palette),
        path=path,
    )
    if colours == 16 and not theme.ansi:
        plain = load(resources.themes() / f"{SIXTEEN}.toml")
        return replace(plain, name=theme.name, about=theme.about, path=path)
    return theme


_LEVELS = (0, 95, 135, 175, 215, 255)  # of red, green and blue in the cube of colours


def _sent_as(number: int) -> str:
    """Return a colour that Rich sends as `number` of the 256 colours."""
    if number >= 232:  # greys; Rich takes their lightness in 25 steps
        return "#" + f"{round((number - 231) * 10.2):02x}" * 3
    red, rest = divmod(number - 16, 36)
    return "#" + "".join(f"{_LEVELS[level]:02x}" for level in (red, *divmod(rest, 6)))


@lru_cache
def _shipped(text: str) -> Mapping[str, Any]:
    """Return a shipped theme as it is written: all are read again when one is chosen."""
    return tomllib.loads(text)


def _base_roles() -> Mapping[str, str]:
    path = resources.themes() / f"{DEFAULT}.toml"
    roles: Mapping[str, str] = _shipped(path.read_text("utf-8"))["roles"]
    return roles


def _bad(path: Path, *field: str) -> BadTheme:
    """Return the error of a field; the last of `field` is why."""
    from akg_tui.store.user_files.reader import fault_at

    return BadTheme(fault_at(path, field[:-1], field[-1]))


def _roles(path: Path, given: Mapping[str, str], palette: Mapping[str, str]) -> dict[str, Style]:
    if unknown := [role for role in given if role not in ROLES]:
        raise _bad(path, "roles", unknown[0], "no role has this name")
    texts = {**_base_roles(), **given}
    roles: dict[str, Style] = {}
    for role in ROLES:
        words = [
            palette.get(word[1:], word).removeprefix(_ANSI) if word.startswith("$") else word
            for word in texts[role].split()
        ]
        try:
            roles[role] = Style.parse(" ".join(words))
        except StyleSyntaxError as error:
            raise _bad(path, "roles", role, f"{texts[role]!r}: {error}") from error
    return roles


def user_folder() -> Path:
    """Return the folder of the user's own themes."""
    return config_folder() / "themes"


def find(name: str, folders: Sequence[Path], colours: int | None = None) -> Theme | None:
    """Return the theme `name` from `name`.toml; a later folder wins over an earlier one.

    None if no folder has a valid file, or if the `name` inside the file differs.
    """
    for folder in reversed(folders):
        path = folder / f"{name}.toml"
        try:
            if path.is_file() and (theme := load(path, colours)).name == name:
                return theme
        except BadTheme:
            continue
    return None


def load_all(
    folders: Iterable[Path], colours: int | None = None
) -> tuple[dict[str, Theme], list[str]]:
    """Return all themes by name, later folders over earlier ones, and the faults of bad files."""
    themes: dict[str, Theme] = {}
    faults: list[str] = []
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            try:
                theme = load(path, colours)
            except BadTheme as error:
                faults.append(str(error))
            else:
                themes[theme.name] = theme
    return themes, faults


def contrast(foreground: str, background: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21, as WCAG 2.2 defines it."""
    lighter, darker = sorted((_luminance(foreground), _luminance(background)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = [value / 255 for value in RichColor.parse(colour).get_truecolor()]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


_MARKED = 2.2  # least contrast of a background to the screen's for reverse video under `NoColour`


class AsciiOnly(LineFilter):
    """Replaces each character beyond ASCII with an ASCII one."""

    def __init__(self) -> None:
        from akg_tui.view.glyphs import ascii_twin  # the first frame does not need it

        super().__init__()
        self._twin = ascii_twin

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(self._twin(segment.text), segment.style)
            for segment in segments
        ]


class NoColour(LineFilter):
    """Removes colours (https://no-color.org). A background that differs clearly becomes reverse
    video; weight, slant and underline stay.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, None if style is None else _colourless(style, background), control)
            for text, style, control in segments
        ]


@lru_cache(maxsize=4096)
def _colourless(style: Style, background: Color) -> Style:
    ground = style.bgcolor
    marked = ground is not None and not ground.is_default and _stands_out(ground, background)
    return Style(
        bold=style.bold,
        italic=style.italic,
        underline=style.underline,
        strike=style.strike,
        # Reverse style or a marked background reverses the text; both together cancel out.
        reverse=bool(style.reverse) != marked or None,
        meta=style.meta or None,
    )


def _stands_out(ground: RichColor, background: Color) -> bool:
    return contrast(ground.get_truecolor(foreground=False).hex, background.hex6) >= _MARKED
