"""Knowledge pages as values, and a BM25 search over them.

Pure except for `library`, which reads the bundled pages once. Writes nothing.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

ANY = "any"
MARK = "k:"
MINE = "mine/"
"""Begins the id of a page of the user, so that it hides none of ours."""

_FIELDS = ("title", "dsl", "backend", "ops", "when", "summary")
_WORD = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*|[\u4e00-\u9fff]")
_ENDINGS = ("isation", "ization", "ising", "izing", "ised", "ized", "ises", "izes", "ise", "ize")

# Okapi BM25 with the usual constants (Robertson and Zaragoza 2009, section 3.3).
K1, B = 1.2, 0.75
# Words of the title and of "when to use" describe a page better than words of its body.
TITLE_WEIGHT, WHEN_WEIGHT = 4, 2


class BadPage(ValueError):
    """A page that cannot be read; the message names file and fault."""


class Page(Struct, frozen=True):
    """One page. `dsl`, `backend` and `ops` are words, or `any`."""

    id: str
    title: str
    dsl: tuple[str, ...]
    backend: tuple[str, ...]
    ops: tuple[str, ...]
    when: str
    summary: str
    body: str

    @property
    def cited(self) -> str:
        """The id in the form in which a plan item cites it."""
        return MARK + self.id

    @property
    def of_user(self) -> bool:
        """Whether the page is not one of ours."""
        return self.id.startswith(MINE)

    def fits(self, dsl: str, backend: str) -> bool:
        """Return whether the page applies to this DSL and backend; "" matches any."""
        return _among(dsl, self.dsl) and _among(backend, self.backend)

    def whole(self) -> str:
        """Return the page as text: id, title, when, body."""
        return f"# {self.cited}: {self.title}\nWhen: {self.when}\n\n{self.body}"


def _among(wanted: str, said: tuple[str, ...]) -> bool:
    return not wanted or ANY in said or wanted.lower() in said


class Library:
    """All pages, in the order of their ids."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = tuple(sorted(pages, key=lambda page: page.id))
        self._bags = {page.id: _bag(page) for page in self.pages}
        self._sizes = {name: sum(bag.values()) for name, bag in self._bags.items()}
        self._holders = Counter(word for bag in self._bags.values() for word in bag)

    def page(self, cited: str) -> Page | None:
        """Return the page with this id, with or without its mark; None if it does not exist."""
        wanted = cited.removeprefix(MARK)
        return next((page for page in self.pages if page.id == wanted), None)

    def search(self, query: str, *, dsl: str = "", backend: str = "", limit: int = 4) -> list[Page]:
        """Return the best matching pages for `dsl` and `backend`, at most `limit`, best first."""
        words = set(words_of(query))
        fitting = [page for page in self.pages if page.fits(dsl, backend)]
        scores = {page.id: self._score(page.id, words) for page in fitting}
        found = [page for page in fitting if scores[page.id] > 0]
        return sorted(found, key=lambda page: (-scores[page.id], page.id))[:limit]

    def _score(self, page: str, words: set[str]) -> float:
        bag, total = self._bags[page], len(self.pages)
        mean = sum(self._sizes.values()) / total
        score = 0.0
        for word in words & bag.keys():
            held = self._holders[word]
            rarity = math.log(1 + (total - held + 0.5) / (held + 0.5))
            length = K1 * (1 - B + B * self._sizes[page] / mean)
            score += rarity * bag[word] * (K1 + 1) / (bag[word] + length)
        return score


def words_of(text: str) -> list[str]:
    """Return the words of a text, normalized: lower case, without common endings."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        found.append(_stem(word))
        if "_" in word:
            found += [_stem(part) for part in word.split("_")]
    return found


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    if word.endswith("ies") and len(word) > 5:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        return word[:-1]
    return word


def _bag(page: Page) -> Counter[str]:
    bag = Counter(words_of(f"{page.summary} {page.body} {' '.join(page.ops)}"))
    for text, weight in (
        (f"{page.title} {page.id.replace('-', ' ')}", TITLE_WEIGHT),
        (page.when, WHEN_WEIGHT),
    ):
        for word in words_of(text):
            bag[word] += weight
    return bag


def read_page(name: str, text: str) -> Page:
    """Parse a page from its Markdown with front matter. Raises `BadPage`."""
    match = re.match(r"---\n(.*?)\n---\n+(.*)", text, re.S)
    if match is None:
        raise BadPage(f"{name}: has no front matter between two lines of ---")
    fields: dict[str, str] = {}
    for number, line in enumerate(match[1].split("\n"), 2):
        field, colon, value = line.partition(":")
        if not colon or field not in _FIELDS or not value.strip():
            raise BadPage(f"{name}:{number}: expected one of {', '.join(_FIELDS)} and a value")
        fields[field] = value.strip().removeprefix('"').removesuffix('"')
    for field in _FIELDS:
        if field not in fields:
            raise BadPage(f"{name}: lacks {field}")
    dsl, backend, ops = (
        tuple(part.strip() for part in fields[field].split(","))
        for field in ("dsl", "backend", "ops")
    )
    return Page(
        id=name,
        title=fields["title"],
        dsl=dsl,
        backend=backend,
        ops=ops,
        when=fields["when"],
        summary=fields["summary"],
        body=match[2].strip(),
    )


def read_user_page(name: str, text: str) -> Page:
    """Parse a page of the user; its front matter may be missing. Raises `BadPage`.

    Without front matter the page is for every target, and its first heading is its title.
    """
    if text.startswith("---\n"):
        return structs.replace(read_page(name, text), id=MINE + name)
    body = text.strip()
    if not body:
        raise BadPage(f"{name}: is empty")
    first, _, rest = body.partition("\n")
    title, summary = first.lstrip("# ").strip() or name, rest.strip().partition("\n")[0]
    anything = (ANY,)
    return Page(MINE + name, title, anything, anything, anything, title, summary or title, body)


@functools.lru_cache(maxsize=1)
def library() -> Library:
    """Return the pages that ship with the program."""
    folder = Path(__file__).parent / "pages"
    return Library([read_page(p.stem, p.read_text("utf-8")) for p in sorted(folder.glob("*.md"))])
