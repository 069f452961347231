"""Loads the compiler of `torch.compile`, and finds out once what each process would find out again.

Imported by the zygote of a judge that times compiled kernels, before it forks: its children then
need a second less. Compiles nothing, so that it starts no thread and no OpenMP region.
"""

from __future__ import annotations

import torch._dynamo
import torch._dynamo.repro.after_dynamo
import torch._inductor.compile_fx
import torch.export._trace
import torch.utils.cpp_extension
from torch._inductor.codecache import CacheBase, torch_key
from torch._inductor.codegen.common import init_backend_registration

torch._dynamo.list_backends()
init_backend_registration()
# Digests of torch's own files, which are parts of every cache key.
torch_key()
if torch.version.cuda is None:
    # Elsewhere it starts CUDA, which serves no process that is forked later.
    CacheBase.get_system()
