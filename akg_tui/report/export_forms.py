"""A run's best kernel in the forms that public sets and libraries take, with a test of each.

Returns the texts of the files, made from the kernel and from templates; writes nothing. None of
them imports akg_tui, and the tests need torch alone.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from akg_tui.core.task import Task
from akg_tui.problems.module_text import bound_by, needed_for
from akg_tui.report.self_contained import self_contained
from akg_tui.report.wording import template
from akg_tui.store.errors import BadTask

Files = dict[str, str]

_LIBRARIES = frozenset({"numpy", "torch", "triton", *sys.stdlib_module_names})


@dataclass(frozen=True)
class Form:
    """The files of an export by path, and which of them is the test."""

    files: Files
    test: str


@dataclass(frozen=True)
class Exported:
    """What is exported: the texts of the kernel's files and of the reference, and a line on it."""

    task: Task
    kernel: Mapping[str, str]
    reference: str
    told: str

    @property
    def name(self) -> str:
        """The operator as the name of a module, which no other file here has."""
        name = re.sub(r"\W", "_", self.task.op, flags=re.ASCII).strip("_")
        taken = {"kernel", "submission", self.named.removesuffix(".py"), *_LIBRARIES}
        taken.add(self.task.correctness.check.partition(".py:")[0])
        known = name.isidentifier() and not keyword.iskeyword(name) and name not in taken
        return name if known else f"kernel_{name}"

    @property
    def named(self) -> str:
        """The file of the reference, with its own name if a check may import it."""
        return self.task.files.reference if self.task.correctness.check else "reference.py"

    def alone(self) -> str:
        """Return the text of a kernel in one file. Raises `BadTask` if it has several."""
        if len(self.kernel) > 1:
            what = f"the kernel has {len(self.kernel)} files, and this form takes one: --to module"
            raise BadTask(Path(self.task.files.kernel), None, "", what)
        return self.files()[self.task.files.kernel]

    def files(self) -> Files:
        """Return the kernel's files without imports of akg_tui."""
        return {
            name: self_contained(Path(name), text) if name.endswith(".py") else text
            for name, text in self.kernel.items()
        }

    def package(self, folder: str) -> list[tuple[str, str]]:
        """Return the kernel as a package in a folder: its files import one another relatively."""
        files, first = self.files(), _module_of(self.task.files.kernel)
        own = {_module_of(name) for name in files if name.endswith(".py")}
        made = [
            (f"{folder}/{name}", _relative(text, own) if name.endswith(".py") else text)
            for name, text in files.items()
        ]
        # A comment below the code: one above it could state the encoding of the file.
        text = f'from .{first} import ModelNew\n\n__all__ = ["ModelNew"]\n\n# {self.told}\n'
        return [*made, (f"{folder}/__init__.py", text)]

    def form(
        self,
        own: list[tuple[str, str]],
        imports: str,
        use: str,
        *,
        folder: str = "",
        made: str = "constructed(ModelNew, given)",
        called: str = "called(kernel, after)",
    ) -> Form:
        """Return the files `own` with the reference and a test, in a folder, and a page.

        `imports` binds what `made` needs, which makes the kernel's model; `called` calls it, and
        `use` says how the files are used. Raises `BadTask` if two files have one name.
        """
        rules, target = self.task.correctness, self.task.target
        check, _, function = rules.check.partition(":")
        loads = 'importlib.import_module("{}")'.format
        test = f"{folder}test_{self.name}.py"
        text = _text(
            "export_test.py.j2",
            device={"cpu": "cpu", "cuda": "cuda", "ascend": "npu"}[target.backend],
            interpreted=target.backend == "cpu" and target.dsl == "triton",
            imports=imports,
            reference=loads(_module_of(self.named)),
            check=f"{loads(_module_of(check))}.{function}" if check else "",
            tolerance=rules.tolerance,
            constructed=_text("constructed.py.j2", name="constructed").rstrip(),
            made=made,
            called=called,
        )
        page = "Figures hold for the machine and the sizes of that run; the test compares results."
        pairs = [*own, (folder + self.named, self.reference), (test, text)]
        if self.task.check_source:
            pairs.append((folder + check, self.task.check_source))
        pairs.append(("README.md", f"# {self.task.op}\n\n{self.told}. {page}\n\n{use}\n"))
        files = dict(pairs)
        if len(files) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            what = "is the name of two files of this form: export to another form"
            raise BadTask(Path(twice), None, "", what)
        return Form(files, test)


def _text(file: str, /, **values: object) -> str:
    """Return the text of a template of this package."""
    return f"{template(file).render(values)}\n"


def _module_of(file: str) -> str:
    """Return the name by which a file is imported. Raises `BadTask` if it can't be."""
    name = file.removesuffix(".py")
    if not name.isidentifier() or keyword.iskeyword(name) or name in _LIBRARIES:
        what = "can't be exported: Python can't import a file of this name beside its libraries"
        raise BadTask(Path(file), None, "", what)
    return name


def _relative(text: str, own: set[str]) -> str:
    """Return a module's text with relative imports of the modules `own`."""
    lines = text.encode().splitlines(keepends=True)
    found: list[tuple[ast.stmt, str]] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module=str() as module, level=0) if module in own:
                found.append((node, ast.unparse(ast.ImportFrom(module, node.names, 1))))
            case ast.Import(names=names) if ours := [each for each in names if each.name in own]:
                others = [each for each in names if each.name not in own]
                said = [ast.unparse(ast.Import(others))] if others else []
                found.append((node, "; ".join([*said, ast.unparse(ast.ImportFrom(None, ours, 1))])))
    for node, new in sorted(found, key=lambda each: (each[0].lineno, each[0].col_offset))[::-1]:
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        lines[first : last + 1] = [before + new.encode() + after]
    return b"".join(lines).decode()


def kernelbench(given: Exported) -> Form:
    """Return `kernel.py` with ModelNew, beside the reference with Model."""
    use = (
        f"`{given.named}` has `Model`, `get_inputs` and `get_init_inputs`, and `kernel.py` "
        "`ModelNew`, as KernelBench's scripts take them."
    )
    return given.form([("kernel.py", given.alone())], "from kernel import ModelNew", use)


def gpu_mode(given: Exported) -> Form:
    """Return `submission.py` with `custom_kernel(data)`."""
    needed = needed_for(ast.parse(given.reference), {"get_init_inputs"})
    kept = [each for each in needed if not isinstance(each, ast.ImportFrom) or each.level == 0]
    kept = [each for each in kept if getattr(each, "module", "") != "__future__"]
    for each in kept:
        if isinstance(each, ast.ImportFrom) and each.names[0].name == "*":
            what = "has `import *`, which this form can't take into a function"
            raise BadTask(Path(given.task.files.reference), each.lineno, "", what)
    kernel = given.alone()
    for each in ast.parse(kernel).body:
        if "custom_kernel" in bound_by(each):
            what = "has this name itself, which this form gives to the function that is submitted"
            raise BadTask(Path(given.task.files.kernel), None, "custom_kernel", what)
    code = "\n".join(ast.unparse(each) for each in kept)
    arguments = "\n".join(f"    {line}" if line else "" for line in code.splitlines())
    made = _text("constructed.py.j2", name="_akg_constructed").rstrip()
    submitted = _text("submission.py.j2", constructed=made, arguments=arguments)
    text = kernel.rstrip("\n") + "\n\n\n" + submitted
    head = f"#!POPCORN leaderboard {given.name}\n\n"
    return given.form(
        [("submission.py", head + text)],
        "import submission",
        "`data` is the tuple, or the dictionary, of what `get_inputs()` of the reference returns.",
        # The model, so that it gets the reference's weights; then what is submitted calls it.
        made="submission._akg_model = submission._akg_made()",
        called="submission.custom_kernel(after if isinstance(after, dict) else tuple(after))",
    )


def hf_kernels(given: Exported) -> Form:
    """Return a project of Hugging Face's kernel-builder, without code that is compiled ahead."""
    name = given.name.lower()  # the builder takes no others
    hub = name.replace("_", "-")
    backend = {"cpu": "cpu", "cuda": "cuda", "ascend": "npu"}[given.task.target.backend]
    build = (
        f"[general]\nname = {json.dumps(hub)}\nversion = 1\nedition = 5\n"
        f'backends = ["{backend}"]\n\n[torch-noarch]\n'
    )
    imports = (
        'sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torch-ext"))\n'
        f"from {name} import ModelNew"
    )
    use = (
        "A project for `kernel-builder`: add `license` and `[general.hub]` to `build.toml`, and a "
        "`flake.nix`. What is no Triton is compiled at its first use."
    )
    own = [("build.toml", build), *given.package(f"torch-ext/{name}")]
    return given.form(own, imports, use, folder="tests/")


def module(given: Exported) -> Form:
    """Return a package to copy into a library."""
    use = f"`from {given.name} import ModelNew`; a model of it has the parameters of `Model`."
    return given.form(given.package(given.name), f"from {given.name} import ModelNew", use)


FORMS: Mapping[str, Callable[[Exported], Form]] = {
    "kernelbench": kernelbench,
    "gpu-mode": gpu_mode,
    "hf-kernels": hf_kernels,
    "module": module,
}
