"""First kernels made of what torch.compile generates, as one file that needs no `torch._inductor`.

Works on texts; runs nothing.
"""
