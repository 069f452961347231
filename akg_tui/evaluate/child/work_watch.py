"""Finds out whether a kernel leaves its work to torch, numpy or a library of linear algebra.

Runs in the child, where the task says `kernel_must_do_the_work`. One call is watched: each operator
that torch dispatches then, in any thread, and each tensor that is handed to numpy. The compiled
libraries are searched for functions that they need from BLAS and the like, which torch does not
dispatch. The watch runs in the kernel's process, so code that knows of it can hide from it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from akg_tui.evaluate.child.faults import Fault
from akg_tui.evaluate.protocol.child_protocol import Status
from akg_tui.evaluate.protocol.value_tree import tensors_in

# ruff: noqa: SIM905 (words are easier to read as text)
OF_TORCH = frozenset("aten prims quantized mkldnn mkl onednn prepacked".split())
"""The namespaces of torch's own operators."""

WITHOUT_WORK = frozenset(
    """empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros zeros_like
    new_zeros ones ones_like new_ones full full_like new_full scalar_tensor fill_ zero_ set_
    resize_ resize_as_ clone copy_ _to_copy type_as contiguous item _local_scalar_dense is_nonzero
    pin_memory is_pinned record_stream""".split()
)
"""Operators that make, copy, convert or read tensors; those that return views have `VIEW`."""

VIEW = re.compile(r"-> .*Tensor\(\w+\)")
"""The end of the schema of an operator that returns views. One that writes has `Tensor(a!)`."""

SMALL = 1 / 500
"""Operators may touch this share of the elements of arguments and results: sizes and offsets."""

FOREIGN = re.compile(
    r"cblas_|LAPACKE_|mkl_|dnnl_|cublas|cudnn|cusolver|cusparse|_ZN4dnnl|_ZN2at(6native|3cpu)"
    r"|aoti_torch_(cpu|cuda)_"
    r"|[sdcz](gemm|gemv|gemmt|ger|symm|symv|syrk|trmm|trsm|dot|axpy|getrf|getrs|gesv|potrf)_?$"
)
"""The beginnings of names of functions that compute, in libraries that torch does not dispatch."""

WATCHED_CALL = 2
"""The call of a process that is watched: at the first one a kernel may pack its weights."""


class WatchedModel:
    """A model whose call number `WATCHED_CALL` is refused if others do its work."""

    def __init__(self, model: Callable[..., object], foreign: Sequence[str] = ()) -> None:
        self.model, self._foreign = model, foreign
        self._calls = 0

    def __call__(self, *arguments: object, **named: object) -> object:
        """Call the model; raise Fault(GUARD) with the names of operators that do the work."""
        self._calls += 1
        if self._calls != WATCHED_CALL:
            return self.model(*arguments, **named)
        found: dict[str, int] = {}
        with watched(found):
            result = self.model(*arguments, **named)
        elements = sum(t.numel() for t in tensors_in(*arguments, *named.values(), result))
        names = list(self._foreign) + needed(Path(os.environ["AKG_CACHE_DIR"]))
        if sum(found.values()) > SMALL * elements:
            names = sorted(found, key=lambda name: -found[name]) + names
        if names:
            what = (
                "the task says kernel_must_do_the_work, and the kernel leaves work to "
                f"{', '.join(dict.fromkeys(names[:4]))}: write that in the kernel"
            )
            raise Fault(Status.GUARD, what)
        return result


@contextlib.contextmanager
def watched(found: dict[str, int]) -> Iterator[None]:
    """Add to `found` the operators of torch that compute in the block, with their elements."""
    to_numpy = torch.Tensor.numpy

    def handed_over(tensor: torch.Tensor, **options: Any) -> Any:
        found["Tensor.numpy"] = found.get("Tensor.numpy", 0) + tensor.numel()
        return to_numpy(tensor, **options)

    path = Path("operators.json")
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(path))
    torch.Tensor.numpy = handed_over  # type: ignore[assignment,method-assign]
    observer.start()
    try:
        yield
    finally:
        observer.stop()
        torch.Tensor.numpy = to_numpy  # type: ignore[method-assign]
        observer.unregister_callback()
    nodes = json.loads(path.read_text("utf-8", "replace"))["nodes"]
    path.unlink()
    names = {node["id"]: node["name"] for node in nodes}
    for node in nodes:
        name = node["name"]
        # Of an operator that calls others the outer one is told.
        if not _of_torch(name) or _of_torch(names.get(node["ctrl_deps"], "")):
            continue
        schema = next((a["value"] for a in node["attrs"] if a["name"] == "op_schema"), "")
        if name.partition("::")[2] not in WITHOUT_WORK and not VIEW.search(schema):
            found[name] = (
                found.get(name, 0) + _elements(node["inputs"]) + _elements(node["outputs"])
            )


def _of_torch(name: str) -> bool:
    return name.partition("::")[0] in OF_TORCH and "::" in name


def _elements(values: dict[str, Any]) -> int:
    """Return the number of elements of the tensors among an operator's inputs or outputs."""
    pairs = zip(values["types"], values["shapes"], strict=True)
    return sum(_product(shape) for kind, shape in pairs if "Tensor" in kind)


def _product(shape: Sequence[Any]) -> int:
    if any(isinstance(each, list) for each in shape):
        return sum(_product(each) for each in shape)
    return math.prod(shape)


def asked_of_ctypes() -> list[str]:
    """Return the list of `FOREIGN` functions that this process asks ctypes for from now on."""
    asked: list[str] = []
    cache = os.environ["AKG_CACHE_DIR"]

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "ctypes.dlsym":
            library, name = arguments
            own = str(getattr(library, "_name", "")).startswith(cache)
            if isinstance(name, str) and FOREIGN.match(name) and not own:
                asked.append(name)

    sys.addaudithook(note)
    return asked


def needed(folder: Path) -> list[str]:
    """Return the `FOREIGN` functions that the libraries in a folder need from others.

    One that looks functions up by name needs those whose names are among its strings.
    """
    names: dict[str, None] = {}
    for path in sorted(folder.rglob("*.so")):
        library = path.read_bytes()
        symbols = undefined_symbols(library)
        if "dlsym" in symbols:
            symbols += [name.decode() for name in re.findall(rb"(?<=\0)\w{4,40}(?=\0)", library)]
        names |= dict.fromkeys(filter(FOREIGN.match, symbols))
    return list(names)


def undefined_symbols(library: bytes) -> list[str]:
    """Return the names that a 64-bit little-endian ELF file needs from other libraries.

    Source: System V ABI, "Object files"; section 11 is `SHT_DYNSYM`. [] for another file.
    """
    if library[:6] != b"\x7fELF\x02\x01":
        return []
    with contextlib.suppress(struct.error, IndexError):
        (start,) = struct.unpack_from("<Q", library, 40)
        size, count = struct.unpack_from("<HH", library, 58)
        sections = [
            struct.unpack_from("<IIQQQQII", library, start + size * n) for n in range(count)
        ]
        names = []
        for _, kind, _, _, offset, length, link, _ in sections:
            if kind != 11:
                continue
            strings = sections[link][4]
            for at in range(offset + 24, offset + length, 24):
                name, _, _, section = struct.unpack_from("<IBBH", library, at)
                if section == 0:
                    first = strings + name
                    names.append(library[first : library.index(b"\0", first)].decode("latin-1"))
        return names
    return []
