"""The names that the static guard's rules are about. Only tables; what they mean is `guard`'s."""

# ruff: noqa: SIM905 (such tables are read as words)
from __future__ import annotations

import re

NETWORK = frozenset(
    "socket ssl urllib http requests httpx aiohttp ftplib smtplib xmlrpc paramiko".split()
)
PROCESSES = frozenset({"subprocess", "multiprocessing"})
MODULES = frozenset(
    "torch numpy time timeit builtins math ctypes os sys gc random inspect threading".split()
)
SETTINGS = ("torch.backends", "os.environ")
"""May be set: they are made for it."""

IMPORTERS = frozenset({"__import__", "importlib.import_module", "runpy.run_path"})
SETTERS = frozenset({"setattr", "object.__setattr__", "unittest.mock.patch.object"})
LOOKING_AROUND = frozenset(
    """sys._getframe sys.modules sys.settrace sys.setprofile sys._current_frames
    gc.get_objects gc.get_referrers gc.get_referents
    inspect.stack inspect.currentframe inspect.getouterframes inspect.trace""".split()
)
FRAME_PARTS = frozenset({"f_back", "f_locals", "f_globals", "gi_frame", "tb_frame"})
ENDING = frozenset(
    "os._exit os.abort os.execv os.execve os.execvp os.kill os.killpg os.fork os.forkpty".split()
)
FORKS = frozenset("os.system os.popen os.posix_spawn os.spawnv os.spawnl".split())
THREADS = frozenset(
    """threading.Thread threading.Timer _thread.start_new_thread
    concurrent.futures.ThreadPoolExecutor multiprocessing.pool.ThreadPool asyncio.run""".split()
)
SETTING_THREADS = frozenset({"torch.set_num_threads", "torch.set_num_interop_threads"})
FILES = frozenset(
    """open io.open os.open os.read os.write os.listdir os.scandir os.memfd_create shutil.copy
    pathlib.Path.open torch.load torch.save numpy.load numpy.save numpy.fromfile numpy.memmap
    mmap.mmap pickle.load pickle.dump tempfile.mkstemp tempfile.NamedTemporaryFile""".split()
)
MEMORY = frozenset("ctypes.string_at ctypes.memmove ctypes.memset ctypes.pythonapi".split())
CODE = frozenset({"exec", "eval", "compile", "__import__", "importlib.import_module"})
LATER = frozenset("atexit.register weakref.finalize signal.signal signal.setitimer".split())
COMPILERS_OF_TORCH = frozenset(
    "torch.compile torch.jit.script torch.jit.trace torch._dynamo.optimize".split()
)
FILLERS = frozenset(
    "zeros_like ones_like empty_like full_like rand_like randn_like clone detach".split()
)
BUILDERS = frozenset("compile_cpp load_inline load CDLL jit".split())
OP_NAMESPACES = ("torch.nn.functional.", "torch.ops.", "torch.linalg.", "torch.special.")
TORCH_WITHOUT_WORK = frozenset(
    """empty empty_like empty_strided zeros zeros_like full full_like ones ones_like tensor
    as_tensor from_numpy frombuffer as_strided device Size dtype is_tensor no_grad inference_mode
    get_num_threads numel is_contiguous promote_types result_type finfo iinfo Generator
    broadcast_shapes float32 view_as_real view_as_complex is_floating_point""".split()
)
COMPUTE_METHODS = frozenset(
    """softmax log_softmax matmul mm bmm addmm baddbmm mv dot einsum sum mean prod var std norm
    amax amin max min argmax argmin cumsum cumprod logsumexp sort topk exp exp_ log sqrt rsqrt pow
    square sigmoid tanh relu relu_ gelu silu add add_ sub sub_ mul mul_ div div_ addcmul addcdiv
    conv1d conv2d conv3d layer_norm group_norm batch_norm masked_fill masked_fill_ where gather
    scatter scatter_ scatter_add_ index_select abs clamp clamp_ sin cos erf tril triu""".split()
)
ATEN = re.compile(
    r"\b(?:at|torch)::(?!empty|zeros|Tensor|from_blob|kFloat|TensorOptions|parallel_for|indexing"
    r"|nn\b|Dtype|Device|get_num_threads|dtype|device|full|ones)[a-z_0-9]+\s*\("
)
