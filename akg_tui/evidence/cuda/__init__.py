"""What nvcc tells of a kernel in CUDA C++, and what it launches, on a machine without a GPU."""
