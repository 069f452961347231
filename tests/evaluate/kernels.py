"""Small references and kernels that the tests of this folder put before the judge."""

from __future__ import annotations

REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return []
"""

PLAIN = """
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
"""


def kernel(*lines: str, before: str = "") -> str:
    """Return a kernel whose forward(x) consists of these lines."""
    body = "\n".join(f"        {line}" for line in lines)
    return f"""
import ctypes, os, sys, threading, time
import torch
{before}

class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.kept = {{}}

    def forward(self, x):
{body}
"""


SLOW = kernel(
    "for _ in range(20):",
    "    y = torch.softmax(x, dim=-1)",
    "return y",
)

CPP = '''
import ctypes
import torch
from akg_tui.dsl import compile_cpp, pointer

SOURCE = r"""
#include <cmath>
extern "C" void softmax(const float* x, float* y, long rows, long cols) {
  for (long r = 0; r < rows; ++r, x += cols, y += cols) {
    float top = x[0];
    for (long c = 1; c < cols; ++c) top = x[c] > top ? x[c] : top;
    double sum = 0;
    for (long c = 0; c < cols; ++c) sum += y[c] = std::exp(x[c] - top);
    for (long c = 0; c < cols; ++c) y[c] /= sum;
  }
}
"""
library = compile_cpp(SOURCE, ("-O2",))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, cols = (ctypes.c_long(n) for n in x.shape)
        library.softmax(pointer(x), pointer(y), rows, cols)
        return y
'''

LOAD_INLINE = '''
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <Python.h>
static PyObject* half(PyObject*, PyObject* args) {
  float* data; Py_ssize_t address, count;
  if (!PyArg_ParseTuple(args, "nn", &address, &count)) return nullptr;
  data = reinterpret_cast<float*>(address);
  for (Py_ssize_t i = 0; i < count; ++i) data[i] *= 0.5f;
  Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"half", half, METH_VARARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "halving", "", -1, methods};
PyMODINIT_FUNC PyInit_halving() { return PyModule_Create(&module); }
"""
halving = None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        global halving
        if halving is None:
            halving = load_inline("halving", cpp_sources=[SOURCE], no_implicit_headers=True)
        y = 2 * torch.softmax(x, dim=-1)
        halving.half(y.data_ptr(), y.numel())
        return y
'''
