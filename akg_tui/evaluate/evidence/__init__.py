"""What binds a kernel: its machine code, its compiler's remarks, its counters, and the roofline.

Everything here informs and decides nothing: no verdict uses it, but that a compiler's refusal for
the arch of a GPU ends an evaluation before it begins (`targets.compile_gate`). A confined process
reads the kernel (`kernel_process`), `asking` starts it and keeps its answers. Importing this
package imports no torch.
"""
