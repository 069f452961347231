"""The check of a code base's tasks: how many of which kind, and whether each can be repaired."""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchmarks.edit_formats.languages import language_of
from benchmarks.edit_formats.mutations import KINDS
from benchmarks.edit_formats.report import aligned
from benchmarks.edit_formats.whole_file import ALL_FORMATS
from benchmarks.edit_models.checks import TaskCheck
from benchmarks.edit_models.code_base import Drawn
from benchmarks.edit_models.tasks import EditTask


class CorpusReport:
    """Counts the tasks that are added, with their checks."""

    def __init__(self, corpus: str, seed: int, drawn: Drawn) -> None:
        self._corpus = corpus
        self._seed = seed
        self._drawn = drawn
        self._tasks: Counter[tuple[str, str]] = Counter()
        self._files: dict[str, set[str]] = {language: set() for language in sorted(drawn.found)}
        self._restored = dict.fromkeys(ALL_FORMATS, 0)
        self._unsound: list[tuple[str, TaskCheck]] = []

    def add(self, task: EditTask, check: TaskCheck) -> None:
        language = str(language_of(task.path))
        self._tasks[language, task.kind] += 1
        self._files[language].add(task.path)
        for form in ALL_FORMATS:
            self._restored[form] += form not in check.unrestored
        if not check.sound:
            self._unsound.append((task.path, check))

    @property
    def sound(self) -> bool:
        return not self._unsound

    def as_json(self) -> dict[str, Any]:
        """Plain values, ready for `json.dumps`."""
        checks = [check for _, check in self._unsound]
        return {
            "corpus": self._corpus,
            "seed": self._seed,
            "tasks": self._tasks.total(),
            "by_language": {
                language: {
                    "files_found": self._drawn.found[language],
                    "files_used": len(files),
                    "tasks": {kind: self._tasks[language, kind] for kind in KINDS},
                }
                for language, files in self._files.items()
            },
            "files_unfit": dict(self._drawn.unfit),
            "faults_left_out": self._drawn.faults_left_out,
            "grammars_missing": list(self._drawn.missing),
            "not_parsing": sum(not check.parses for check in checks),
            "not_different": sum(not check.differs for check in checks),
            "restored": self._restored,
            "unsound": [
                {"path": path, "task": check.task, "unrestored": list(check.unrestored)}
                for path, check in self._unsound
            ],
        }

    def table(self) -> str:
        """The report as plain text."""
        told = self.as_json()
        languages = list(self._files)
        rows = [["tasks", *languages, "all"]]
        for kind in KINDS:
            counts = [self._tasks[language, kind] for language in languages]
            rows.append([kind, *map(str, counts), str(sum(counts))])
        for name, of in (("files found", "files_found"), ("files used", "files_used")):
            counts = [told["by_language"][language][of] for language in languages]
            rows.append([name, *map(str, counts), str(sum(counts))])
        unfit = ", ".join(f"{count} {why}" for why, count in sorted(told["files_unfit"].items()))
        restored = ", ".join(f"{form} {count}" for form, count in self._restored.items())
        return "\n".join(
            [
                f"{told['tasks']} tasks in {self._corpus}, seed {self._seed}",
                aligned(rows),
                f"files read and not used: {unfit or 'none'}",
                f"faults tried and left out: {told['faults_left_out']}",
                f"broken files that do not parse: {told['not_parsing']}; "
                f"that are the same code: {told['not_different']}",
                f"restored byte for byte by the true edit: {restored}",
                *(
                    f"{each['path']} ({each['task']}): not restored in "
                    f"{', '.join(each['unrestored']) or 'any'}"
                    for each in told["unsound"][:20]
                ),
            ]
        )
