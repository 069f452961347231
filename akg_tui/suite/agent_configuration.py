"""An agent's configuration: a name, as `tune --agent` takes it, or a TOML file with `[agent]`.

The file states settings as task.toml does; what it leaves out stays as each task has it. Files of
tools that it names are beside it, and become part of the tasks.
"""

from __future__ import annotations

from pathlib import Path

from akg_tui.core.task import AGENT_FILES
from akg_tui.store.errors import BadTask
from akg_tui.store.task_folder import file_text
from akg_tui.store.task_toml import parse_configuration
from akg_tui.suite.suite_record import Configuration, label_of

SUFFIX = ".toml"


def configurations(a: str, b: str) -> dict[str, Configuration]:
    """Return two configurations by their names, which differ even if the words are equal.

    Raises `BadTask` if a file cannot be used; the message names file, line and field.
    """
    first, one = _read(a)
    second, other = _read(b)
    same = label_of(first) == label_of(second)
    return {first: one, f"{second}-b" if same else second: other}


def _read(word: str) -> tuple[str, Configuration]:
    path = Path(word).expanduser()
    if path.suffix != SUFFIX:
        return word, Configuration(settings={"model": word})
    stated = parse_configuration(path, file_text(path))
    files = {}
    for field in AGENT_FILES:
        if name := stated.get(field):
            beside = path.with_name(name)
            if not beside.is_file():
                raise BadTask(path, None, f"agent.{field}", f"{beside} is not a file")
            files[name] = file_text(beside)
    return path.stem, Configuration(settings=stated, files=files)
