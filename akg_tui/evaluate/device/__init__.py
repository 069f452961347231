"""The judge's side of kernels on an accelerator; `child/device_server.py` is the other side."""
