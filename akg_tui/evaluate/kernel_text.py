"""A kernel's text for static checks: its syntax tree, imported names, and reachable functions.

Pure: reads text, runs nothing. Owns the tables of names that the rules of `static_guard` use.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from akg_tui.kernel_files import NotJoinable, split_files

ENTRIES = ("forward", "__call__")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Remark:
    """A finding before the task's level is applied.

    `cheat`: no honest kernel contains this code and other checks may miss it, so it is refused.
    Code that the sandbox blocks or the comparison detects is only reported.
    """

    rule: str
    line: int
    reason: str
    cheat: bool


@dataclass(frozen=True)
class Kernel:
    """A parsed kernel: its tree, its imports, and the functions that a call can reach."""

    tree: ast.Module
    imports: dict[str, str]
    """The full name of each imported name: `F` is `torch.nn.functional`."""

    reached: tuple[Function, ...]
    entry: ast.FunctionDef | None

    others: tuple[tuple[int, str], ...] = ()
    """The texts that are no Python of a kernel in several files, each with the lines before it."""

    @staticmethod
    def read(source: str, files: Sequence[str] = ()) -> Kernel:
        """Return the parsed text; SyntaxError or ValueError if it does not parse.

        Of a kernel in several `files` all Python is read as one module, whose lines are those of
        the joined text.
        """
        others: list[tuple[int, str]] = []
        if len(files) > 1:
            tree, before = ast.Module([], []), 0
            for name, text in split_files(files, source).items():
                if name.endswith(".py"):
                    tree.body += ast.increment_lineno(ast.parse(text), before).body
                else:
                    others.append((before, text))
                before += text.count("\n") + 2
        else:
            tree = ast.parse(source)
        entry, reached = _reach(tree)
        return Kernel(tree, _imports(tree), tuple(reached), entry, tuple(others))

    def name(self, node: ast.AST) -> str:
        """Return the full name of the object that an expression names (`torch.softmax`), or ""."""
        if isinstance(node, ast.Name):
            return self.imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            # A variable may be named like a module, so only imported names count.
            if isinstance(node.value, ast.Name) and node.value.id not in self.imports:
                return ""
            owner = self.name(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""

    def calls(self, within: ast.AST) -> Iterator[tuple[ast.Call, str]]:
        """Yield every call with the full name of the called function."""
        for node in ast.walk(within):
            if isinstance(node, ast.Call):
                yield node, self.name(node.func)


def _imports(tree: ast.Module) -> dict[str, str]:
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                known[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"
    return known


def _reach(tree: ast.Module) -> tuple[ast.FunctionDef | None, list[Function]]:
    """Return ModelNew.forward and all functions of the file that it may call."""
    functions: dict[str, list[Function]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.setdefault(node.name, []).append(node)
    entry = next(
        (
            method
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name == "ModelNew"
            for method in node.body
            if isinstance(method, ast.FunctionDef) and method.name in ENTRIES
        ),
        None,
    )
    functions.pop("__init__", None)
    # A name or a node is followed once, or many uses of many functions would take hours.
    waiting = [entry] if entry is not None else [f for n in ENTRIES for f in functions.pop(n, [])]
    reached: dict[Function, None] = {}
    seen: set[ast.AST] = set()
    while waiting:
        function = waiting.pop()
        reached[function] = None
        for node in walk_new(function, seen):
            used = node.id if isinstance(node, ast.Name) else getattr(node, "attr", None)
            if isinstance(used, str):
                waiting += functions.pop(used, [])
    return entry, list(reached)


def walk_new(top: ast.AST, seen: set[ast.AST]) -> Iterator[ast.AST]:
    """Yield a node and all below it, except those in `seen` and below them; add them to `seen`."""
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += ast.iter_child_nodes(node)
            yield node


# ruff: noqa: SIM905 (tables of words are easier to read as text)


NETWORK = frozenset(
    "socket ssl urllib http requests httpx aiohttp ftplib smtplib xmlrpc paramiko".split()
)
PROCESSES = frozenset({"subprocess", "multiprocessing"})
MODULES = frozenset(
    "torch triton numpy time timeit builtins math ctypes os sys gc random inspect threading".split()
)
SETTINGS = ("torch.backends", "os.environ", "triton.knobs")
"""Attributes that a kernel may set."""

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
BUILDERS = frozenset("compile_cpp compile_cuda compile_ascendc load_inline load CDLL jit".split())
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


SOURCE_LIMIT = 1 << 20
NODES_LIMIT = 40_000
"""The static checks of so many nodes take about a second. C++ in a string is one node."""
DEPTH_LIMIT = 250
"""Nested deeper, an expression could end the recursion of a check. Real code stays below 30."""


def with_untyped_call(message: str, source: str) -> str:
    """Return the message of a crash, with a call that passes an address without `argtypes`."""
    kernel = Kernel.read(source)
    typed = {
        target.value.attr if isinstance(target.value, ast.Attribute) else kernel.name(target.value)
        for node in ast.walk(kernel.tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and target.attr == "argtypes"
    }
    addresses = {
        target.id
        for node in ast.walk(kernel.tree)
        if isinstance(node, ast.Assign) and _is_address(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    own = {function.name for function in _functions(kernel)}
    for call, _ in kernel.calls(kernel.tree):
        known = isinstance(call.func, ast.Attribute | ast.Name)
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        given = any(
            _is_address(each) or (isinstance(each, ast.Name) and each.id in addresses)
            for each in call.args
        )
        # A class of ctypes (c_void_p) or a helper of the file may take an address too.
        foreign = name.startswith("c_") or name in own
        if known and given and name not in typed and not foreign:
            return (
                f"{message}; set argtypes of {name} (line {call.lineno}): without them ctypes "
                "passes pointers as 32-bit ints"
            )
    return message


def _is_address(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "data_ptr"


def _functions(kernel: Kernel) -> list[Function]:
    defined = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(kernel.tree) if isinstance(node, defined)]


def syntax_fault(source: str, entry: str = "ModelNew", files: Sequence[str] = ()) -> str | None:
    """Return one line on why `source` can't be a kernel, or None.

    A kernel parses as Python and binds `entry` at its top level, by a class, an assignment
    or an import. Of a kernel in several `files` the first binds it, and all Python parses.
    """
    if len(source) > SOURCE_LIMIT:
        return f"the file has {len(source)} characters; the limit is {SOURCE_LIMIT}"
    if len(files) > 1:
        try:
            texts = split_files(files, source)
        except NotJoinable as error:
            return str(error)
        if fault := syntax_fault(texts.pop(files[0]), entry):
            return fault
        python = {name: text for name, text in texts.items() if name.endswith(".py")}
        faults = ((name, syntax_fault(text, "")) for name, text in python.items())
        return next((f"{name}: {fault}" for name, fault in faults if fault), None)
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        return f"line {error.lineno or 1}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"the file can't be parsed: {str(error) or type(error).__name__}"
    nodes, depth = 0, 0
    level: list[ast.AST] = [tree]
    while level:
        nodes, depth = nodes + len(level), depth + 1
        if nodes > NODES_LIMIT:
            return f"the file has more than {NODES_LIMIT} syntax nodes, which is the limit"
        if depth > DEPTH_LIMIT:
            line = next((node.lineno for node in level if hasattr(node, "lineno")), 1)
            return f"line {line}: the code is nested deeper than {DEPTH_LIMIT} levels"
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if entry and entry not in _bound_names(tree.body):
        return f"line 1: the file defines no class {entry}"
    return None


def _bound_names(body: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for statement in body:
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name for alias in aliases)
            case ast.If(body=inner, orelse=other):
                names |= _bound_names(inner) | _bound_names(other)
            case ast.Try(body=inner, handlers=handlers, orelse=other):
                names |= _bound_names(inner) | _bound_names(other)
                for handler in handlers:
                    names |= _bound_names(handler.body)
            case ast.With(body=inner):
                names |= _bound_names(inner)
            case _:
                continue
    return names
