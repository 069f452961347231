"""Kernels in CUDA C++, and the benchmark that compiles them without a GPU."""
