"""The house stays in order: no circles, no oversized rooms or folders, no name twice; and a start
loads no more than it shows.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "akg_tui"
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST_LINES = 900
LARGEST_FOLDER = 20


def test_no_two_modules_import_one_another() -> None:
    """Imports inside functions and for type checkers count too."""
    import grimp
    import networkx

    found = grimp.build_graph("akg_tui")
    graph = networkx.DiGraph(
        (importer, imported)
        for importer in found.modules
        for imported in found.find_modules_directly_imported_by(importer)
    )
    circles = [sorted(each) for each in networkx.strongly_connected_components(graph)]
    assert [each for each in circles if len(each) > 1] == []


def test_no_module_and_no_folder_is_too_large() -> None:
    long = {path.name: len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert {name: lines for name, lines in long.items() if lines > LONGEST_LINES} == {}
    folders = Counter(str(path.parent.relative_to(PACKAGE)) for path in MODULES)
    assert {name: files for name, files in folders.items() if files > LARGEST_FOLDER} == {}


def test_no_two_modules_have_the_same_name() -> None:
    """A newcomer who looks for a name finds one module."""
    names = Counter(path.name for path in MODULES)
    assert {name for name, times in names.items() if times > 1} <= {"__init__.py", "__main__.py"}


@pytest.mark.parametrize(
    ("shown", "others"),
    [
        ("from akg_tui.cli import parser; parser()", {"textual", "tomllib", "akg_tui.evaluate"}),
        (
            "from akg_tui.tui.app import WorkbenchApp; from akg_tui.tui.screens.deck import Deck; "
            "WorkbenchApp(None); Deck()",
            {"torch", "akg_tui.evaluate", "akg_tui.dsl.adapters"},
        ),
    ],
    ids=["help", "deck"],
)
def test_a_start_loads_no_more_than_it_shows(shown: str, others: set[str]) -> None:
    code = f"{shown}; import sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) & others == set()
