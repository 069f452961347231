"""Colours by tree-sitter: the roles of Python, C++ and CUDA."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from akg_tui.syntax import grammars
from akg_tui.syntax.highlight import ROLES, Highlighted, highlight
from akg_tui.tui.themes import ROLES as THEME_ROLES
from tests.tui.script import KERNEL

CUDA = '''\
"""A docstring, # not a comment."""
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cuda_runtime.h>
#define WARP 32
template <typename T>
__global__ void add(const float* x, float* y, int64_t n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // one a thread
    if (i < n) y[i] = x[i] + 1.5f;
}
void launch(float* x) { add<<<4, WARP>>>(x, x, 8); }
"""


@torch.compile
class ModelNew(torch.nn.Module):
    def forward(self, x):
        """Of forward."""
        return range(3) if x is not None else f"{x.shape}x"
'''


def roles(lines: Highlighted) -> set[tuple[str, str]]:
    return {(text.strip(), role) for line in lines for text, role in line}


def text_of(lines: Highlighted) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("import", "syn.keyword"),
        ('"""A docstring, # not a comment."""', "syn.comment"),
        ('"""Of forward."""', "syn.comment"),
        ("#include", "syn.preproc"),
        ("<cuda_runtime.h>", "syn.string"),
        ("WARP", "syn.preproc"),
        ("template", "syn.keyword"),
        ("__global__", "syn.keyword"),
        ("add", "syn.function"),
        ("int64_t", "syn.type"),
        ("// one a thread", "syn.comment"),
        ("1.5f", "syn.number"),
        ("<<<", "syn.operator"),
        ("ModelNew", "syn.type"),
        ("forward", "syn.function"),
        ("range", "syn.type"),
        ("is not", "syn.keyword"),
        ("None", "syn.keyword"),
        ("shape", "text"),
    ],
)
def test_each_piece_of_a_cuda_kernel_in_python_has_its_role(text: str, role: str) -> None:
    found = roles(highlight(CUDA))
    assert any(text in piece and its == role for piece, its in found), found


def test_colour_keeps_every_character() -> None:
    for text in (KERNEL, CUDA, "", "\n", "x = 'ü€𝄞' # 注释\n\ty", '"""open\n', "a\x0cb\n" * 200):
        assert text_of(highlight(text)) == text
    assert text_of(highlight("\ufeffa = 1\r\nb\r\n")) == "a = 1\nb\n"


@settings(max_examples=40)
@given(
    st.integers(0, 2_000),
    st.integers(0, 60),
    st.sampled_from(["", "x", '"""', "\n", "float y;\n", "def f():\n", "(", "ü", "// "]),
)
def test_colour_keeps_every_character_of_a_broken_file(start: int, length: int, put: str) -> None:
    text = CUDA[:start] + put + CUDA[start + length :]
    assert text_of(highlight(text)) == text


def test_every_role_of_the_colours_is_one_of_the_themes() -> None:
    assert set(ROLES) <= set(THEME_ROLES)


def test_a_line_is_coloured_alike_whatever_is_looked_at_first() -> None:
    text = CUDA * 40
    forwards, backwards = highlight(text), highlight(text)
    there = [forwards[n] for n in range(len(forwards))]
    back = [backwards[n] for n in reversed(range(len(backwards)))][::-1]
    assert there == back


def test_a_file_that_takes_too_long_to_parse_is_shown_without_colour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grammars, "_LIMIT_S", 0.0)
    monkeypatch.setattr(grammars, "_STEPS", 1)
    text = CUDA + "# one comment of many\n" * 400
    lines = highlight(text)
    assert text_of(lines) == text
    assert roles(lines) == {(line.strip(), "text") for line in text.split("\n") if line}


def test_colours_stay_when_another_thread_has_worked_for_long() -> None:
    with ThreadPoolExecutor(1) as pool:
        lines = pool.submit(highlight, CUDA).result()
    worked = time.thread_time
    with patch("akg_tui.syntax.grammars.time.thread_time", lambda: worked() + 100.0):
        assert list(lines) == list(highlight(CUDA))
        assert ("range", "syn.type") in roles(lines)
        assert lines.parts[0].tree.root_node.text == CUDA.encode()
