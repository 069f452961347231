"""A run's best kernel in the forms that public sets and libraries take, with a test of each.

Pure: returns the texts of the files. None imports akg_tui; the tests need torch alone.
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
        interpreted = target.backend == "cpu" and target.dsl == "triton"
        device = {"cpu": '"cpu"', "cuda": '"cuda"', "ascend": '"npu"'}[target.backend]
        test = f"{folder}test_{self.name}.py"
        text = _TEST.format(
            environment="import torch_npu\n" if target.backend == "ascend" else "",
            device=_INTERPRETED if interpreted else f"DEVICE = {device}\n",
            imports=imports,
            reference=loads(_module_of(self.named)),
            check=f"_judge = {loads(_module_of(check))}.{function}\n" if check else "",
            tolerance=rules.tolerance,
            constructed=_CONSTRUCTED.format(name="constructed"),
            made=made,
            called=called,
            agrees=_CHECKED if check else _COMPARED,
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


_INTERPRETED = """\
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
"""

_CONSTRUCTED = '''\
def {name}(model, given):
    """Return a model made with what `get_init_inputs()` returned."""
    if isinstance(given, dict):
        return model(**given)
    if len(given) == 2 and isinstance(given[0], (list, tuple)) and isinstance(given[1], dict):
        return model(*given[0], **given[1])
    return model(*given)
'''

_COMPARED = """\
    for y, r in zip(outputs, expected):
        if not (r.is_floating_point() or r.is_complex()):
            assert torch.equal(y, r), "results differ"
            continue
        limit = TOLERANCE or LIMITS[str(r.dtype).removeprefix("torch.")]
        kind = torch.complex128 if r.is_complex() else torch.float64
        y, r = y.to(kind), r.to(kind)
        finite = y.isfinite() & r.isfinite()
        odd = torch.isclose(y[~finite], r[~finite], rtol=0, atol=0, equal_nan=True)
        assert odd.all(), "NaN or infinities differ"
        y, r = y[finite], r[finite]
        scale = r.abs() + r.abs().square().mean().sqrt() + 1e-300
        error = float(((y - r).abs() / scale).max()) if len(r) else 0.0
        assert error <= limit, f"max error {error:.2g} > {limit:.2g}"
"""

_CHECKED = """\
    offered = {"inputs": inputs, "outputs": outputs, "expected": expected}
    told = _judge(**{name: offered[name] for name in inspect.signature(_judge).parameters})
    agrees, why = told if isinstance(told, tuple) else (told, told)
    refused = agrees if isinstance(agrees, (str, list)) else agrees is not None and not agrees
    assert not refused, why
"""

_TEST = '''\
"""Compares the kernel with the reference: run this file, or pytest."""

import copy
import dataclasses
import importlib
import inspect
import os
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
{environment}{device}
{imports}

reference = {reference}
{check}
TOLERANCE = {tolerance}
LIMITS = {{"float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "complex64": 1e-4, "float16": 1e-2,
          "bfloat16": 5e-2, "float8_e4m3fn": 0.19, "float8_e4m3fnuz": 0.19, "float8_e5m2": 0.38}}


def parts(value):
    """Return what a container holds, by name or position; None for another value."""
    if isinstance(value, dict):
        return value
    if dataclasses.is_dataclass(value):
        names = [each.name for each in dataclasses.fields(value)]
        return {{name: getattr(value, name) for name in names if hasattr(value, name)}}
    if isinstance(value, (list, tuple)):
        return dict(zip(getattr(value, "_fields", range(len(value))), value))
    return None


def flat(value, like=None):
    """Return the values in a nested one, in the order of `like`; None is no value."""
    held, order = parts(value), parts(like)
    if held is None:
        return [] if value is None else [value]
    order = order if order and order.keys() == held.keys() else held
    return [each for name in order for each in flat(held[name], order[name])]


def found_at(values, before):
    """Return where each tensor was before, or None for a new one; of other values the text."""
    known = {{id(each): at for at, each in enumerate(before)}}
    return [known.get(id(v)) if torch.is_tensor(v) else repr(v) for v in values]


def moved(value):
    """Return a value whose tensors are on the device."""
    if torch.is_tensor(value):
        return value.detach().to(DEVICE).requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {{name: moved(each) for name, each in value.items()}}
    if isinstance(value, (list, tuple)):
        new = map(moved, value)
        return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)
    if dataclasses.is_dataclass(value):
        value = copy.copy(value)
        for name, each in parts(value).items():
            object.__setattr__(value, name, moved(each))
    return value


def same(x, y):
    """Return whether two values are equal, tensors in all their bits."""
    if not (torch.is_tensor(x) and torch.is_tensor(y)):
        return x is y or (type(x) is type(y) and x == y)
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        return False
    return torch.equal(*(v.contiguous().reshape(-1).view(torch.uint8) for v in (x, y)))


{constructed}

def called(model, inputs):
    """Return the results of a model for what `get_inputs()` returned."""
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


def differentiates(model, inputs):
    """Return whether a model calls autograd: it fails without gradients."""
    try:
        called(copy.deepcopy(model), copy.deepcopy(inputs))
    except Exception:
        return True
    return False


@torch.no_grad()
def test_the_kernel_computes_what_the_reference_computes():
    given = reference.get_init_inputs()
    torch.manual_seed(0)
    model = constructed(reference.Model, copy.deepcopy(given))
    model = model.to(DEVICE) if isinstance(model, torch.nn.Module) else model
    torch.manual_seed(0)
    kernel = {made}
    if isinstance(kernel, torch.nn.Module) and isinstance(model, torch.nn.Module):
        kernel.to(DEVICE).load_state_dict(model.state_dict(), strict=False)
    for seed in range(3):
        torch.manual_seed(seed)
        inputs = moved(reference.get_inputs())
        before, after = copy.deepcopy(inputs), copy.deepcopy(inputs)
        for each in (model, kernel):
            if isinstance(each, torch.nn.Module):
                each.zero_grad()
        first, old, new = flat(inputs), flat(before), flat(after)
        with torch.set_grad_enabled(differentiates(model, inputs)):
            expected = called(model, before)
            outputs = {called}
        # What is done to an argument counts as a result, and so does a tensor that it gets.
        theirs, ours = flat(before), flat(after, before)
        kept, places = found_at(theirs, old), found_at(ours, new)
        added = [at for at, place in enumerate(kept) if place is None]
        alike = [k is None or k == p for k, p in zip(kept, places)]
        assert all(alike) and len(kept) == len(places), "the kernel leaves other values in a list"
        changed = [at for at, each in enumerate(first) if not same(each, old[at])]
        wrong = [at for at, each in enumerate(first) if not same(each, new[at]) and at in kept]
        assert {{*wrong}} <= {{*changed}}, "the kernel changes an argument that must stay as it is"
        wanted = flat(expected) + [theirs[at] for at in added] + [old[at] for at in changed]
        found = flat(outputs, expected) + [ours[at] for at in added] + [new[at] for at in changed]
        assert wanted and all(map(torch.is_tensor, wanted)), "the reference returns no tensors"
        assert all(map(torch.is_tensor, found)), "the kernel returns what is no tensor"
        kinds = [[(each.shape, each.dtype) for each in values] for values in (found, wanted)]
        assert kinds[0] == kinds[1], f"{{kinds[0]}}, expected {{kinds[1]}}"
        compare(inputs, found, wanted)


def compare(inputs, outputs, expected):
    """Raise AssertionError if results are wrong."""
    outputs, expected = ([each.detach() for each in values] for values in (outputs, expected))
{agrees}

if __name__ == "__main__":
    test_the_kernel_computes_what_the_reference_computes()
    print("the kernel computes what the reference computes")
'''


def kernelbench(given: Exported) -> Form:
    """Return `kernel.py` with ModelNew, beside the reference with Model."""
    use = (
        f"`{given.named}` has `Model`, `get_inputs` and `get_init_inputs`, and `kernel.py` "
        "`ModelNew`, as KernelBench's scripts take them."
    )
    return given.form([("kernel.py", given.alone())], "from kernel import ModelNew", use)


_SUBMISSION = '''

{constructed}

def _akg_made():
    """Return the kernel's model, made with the arguments that the reference states."""
{arguments}
    return _akg_constructed(ModelNew, get_init_inputs())


_akg_model = None


def custom_kernel(data):
    """Return the results for `data`: one value, or a tuple of them."""
    global _akg_model
    if _akg_model is None:
        _akg_model = _akg_made()
    if isinstance(data, dict):
        return _akg_model(**data)
    return _akg_model(*data) if isinstance(data, (tuple, list)) else _akg_model(data)
'''


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
    made = _CONSTRUCTED.format(name="_akg_constructed")
    text = kernel.rstrip("\n") + "\n" + _SUBMISSION.format(constructed=made, arguments=arguments)
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
