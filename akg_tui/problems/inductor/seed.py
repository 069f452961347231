"""The first kernel of what torch.compile generated."""

from __future__ import annotations

from akg_tui.problems.inductor.cpp_functions import Cpp
from akg_tui.problems.inductor.generated import Generated
from akg_tui.problems.inductor.module import own_functions, parsed, written
from akg_tui.problems.inductor.triton_functions import Triton


def kernel_of(generated: Generated, model: str, origin: str) -> str:
    """Return a kernel that runs what was generated, in the language in which it was.

    Parameters
    ----------
    generated
        The module of Inductor, and how it is called.
    model
        What the reference's `Model` needs, as the text of a module.
    origin
        The reference's name, for the comment at the top.

    Raises
    ------
    NoSeed
        If a part of the module has no counterpart outside of `torch._inductor`.
    """
    language = Triton(generated) if generated.arch else Cpp(generated)
    return written(generated, language, model, origin)


def is_library_only(generated: Generated) -> bool:
    """Return whether Inductor generated no code of its own: there was nothing to fuse."""
    return not any(own_functions(parsed(generated.module)))
