"""What the compiler for Ascend tells of a Triton kernel, without an NPU."""
