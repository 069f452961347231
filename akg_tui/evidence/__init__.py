"""What binds a kernel: its machine code, its compiler's remarks, its profile, and the roofline.

No verdict uses what is found here, with one exception: if the compiler refuses a kernel for the
GPU's arch, the evaluation ends before it begins (`compile_gate`). A confined process reads the
kernel (`kernel_process`); `asking` starts that process and keeps its answers. Importing this
package imports no torch.
"""
