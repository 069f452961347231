"""The code that torch.compile generated for a reference, and how it is called. Plain data.

A confined process makes it, so every text in it is untrusted: it may go into a kernel, which runs
confined too, and onto a screen after escaping.
"""

from __future__ import annotations

from msgspec import Struct


class Given(Struct, frozen=True, kw_only=True):
    """A parameter of `forward`, or an expression of one: a tensor of such shape, stride and dtype,
    or a value's text."""

    name: str
    shape: tuple[int, ...] | None = None
    stride: tuple[int, ...] = ()
    dtype: str = ""
    value: str = ""


class TritonConfig(Struct, frozen=True, kw_only=True):
    """The block sizes by their names, the warps of a program and the stages of its loops."""

    blocks: dict[str, int]
    warps: int
    stages: int


class TritonFunction(Struct, frozen=True, kw_only=True):
    """A function in Triton that Inductor wrote.

    `text` is its definition without decorators; `inner` are functions that only this one calls.
    `configs` are those among which Inductor chooses by
    timing; it has one where it does not time. `limits` are the largest sizes of blocks that make
    sense. `grid` is Inductor's name for how programs are counted.
    """

    name: str
    text: str
    inner: str = ""
    configs: tuple[TritonConfig, ...]
    limits: dict[str, int]
    grid: str


class Generated(Struct, frozen=True, kw_only=True):
    """The module that Inductor wrote for one call of a reference, and how it is called.

    `parameters` are those of `forward`, "*" among them, and `passed` are the arguments with which
    it calls that of `Model`; without them `inputs` are the parameters.

    `arguments` are the expressions, in `forward`, for the arguments of the module's `call`.
    `results` are the expressions for the results of `forward`, where
    `results[i]` is one of the `returned` ones of the call; `single` tells that it returns a tensor
    and no tuple; `nested` is the expression of other results, as a text to format with them.
    `constants` are expressions for the tensors that the module names and does not make.

    In C++, `options` are the flags of Inductor's compiler without their dash; `macro` tells
    at::vec the vector instructions, which `isa` names.

    In Triton, `arch` is the GPU's, `functions` are the module's and `helpers` is the text of the
    functions of `torch._inductor` that they call.
    """

    module: str
    inputs: tuple[Given, ...]
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    returned: int
    single: bool
    parameters: tuple[str, ...] = ()
    passed: str = ""
    nested: str = ""
    constants: dict[str, str]
    torch: str
    isa: str = ""
    macro: str = ""
    options: tuple[str, ...] = ()
    arch: str = ""
    functions: tuple[TritonFunction, ...] = ()
    helpers: str = ""
