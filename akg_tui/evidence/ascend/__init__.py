"""What the compiler for Ascend NPUs tells of a kernel, without an NPU."""
