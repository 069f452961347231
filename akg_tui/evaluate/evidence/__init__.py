"""What binds a kernel: its machine code, its compiler's remarks, its counters, and the roofline.

Everything here informs and decides nothing: no verdict uses it. A confined process reads the kernel
(`kernel_process`), `asking` starts it and keeps its answers. Importing this package imports no
torch.
"""
