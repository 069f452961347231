"""Answers calls in C, so that what a child does around a call costs next to nothing.

From a request to its answer the judge's clock runs. A kernel that put a loop of its own in place of
one in Python saved 13 to 65 µs of that, most of it for cold caches; in place of this one it saves
some 2 µs. The loop serves calls whose results lie as those of the first call did, and copies them
where a model uses its memory again. It hands every other request to Python; where there is no
compiler, all. The library is built before the zygote forks, in the user's cache, which no child can
write to; it must never be built or loaded by a child.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import socket

import torch

from akg_tui import dsl
from akg_tui.evaluate.child import protocol
from akg_tui.evaluate.child.kernel_server import Outcome, Server
from akg_tui.evaluate.child.protocol import Op, Status

ARGUMENTS_MOST, NUMBERS_MOST, TENSORS_MOST, STRIDES_MOST, HELD_MOST = 64, 16, 8, 64, 16
FDS_MOST = 8
"""The sizes of the loop's tables; a kernel that needs larger ones is served in Python."""

NUMBER_KINDS = {torch.int64: 0, torch.float64: 1, torch.bool: 2}

# The declarations are those of Python's stable interface, so that no header of Python is needed.
SOURCE = r"""
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

struct Object;
extern "C" {
Object *PyObject_Vectorcall(Object *, Object *const *, size_t, Object *);
Object *PyObject_Type(Object *);
Object *PyTuple_GetItem(Object *, intptr_t);
intptr_t PyTuple_Size(Object *), PyList_Size(Object *);
Object *PyList_GetItem(Object *, intptr_t);
Object *PyLong_FromLongLong(long long), *PyFloat_FromDouble(double), *PyBool_FromLong(long);
long long PyLong_AsLongLong(Object *);
unsigned long long PyLong_AsUnsignedLongLongMask(Object *);
void Py_IncRef(Object *), Py_DecRef(Object *);
Object *PyErr_Occurred();
int PyErr_CheckSignals();
}

enum { REQUEST = 0, RETURNED = 1, RAISED = 2 };

struct Request { uint32_t op, count; uint64_t nonce, seed; uint32_t item, wanted; };
struct Answer { uint64_t nonce; uint32_t status, length; uint64_t value; };
struct Number { void *at; int32_t position, kind; };
struct Result { Object *tensor; uint64_t address; };
struct Held { int64_t call; Result results[TENSORS]; };

struct Loop {
  Request request;
  int32_t channel, size, received, fds[FDS], armed, copying, arguments, tensors, numbers, last;
  uint32_t used;
  int64_t calls;
  Object *model, *returned;
  Object *tensor_type, *parameter_type, *tuple_type, *list_type, *data_ptr, *stride, *clone;
  char *told;
  int32_t dims[TENSORS], filled[TENSORS];
  int64_t strides[STRIDES];
  Number number[NUMBERS];
  Object *argument[ARGUMENTS];
  Held held[HELD];
};

static void release(Loop *l, int slot) {
  l->used &= ~(1u << slot);
  for (int i = 0; i < l->tensors; i++) Py_DecRef(l->held[slot].results[i].tensor);
}

static Object *called(Loop *l) {
  Object *given[ARGUMENTS];
  memcpy(given, l->argument, l->arguments * sizeof(Object *));
  for (int i = 0; i < l->numbers; i++) {
    Number *n = &l->number[i];
    given[n->position] = n->kind == 0   ? PyLong_FromLongLong(*(long long *)n->at)
                         : n->kind == 1 ? PyFloat_FromDouble(*(double *)n->at)
                                        : PyBool_FromLong(*(char *)n->at);
  }
  Object *result = PyObject_Vectorcall(l->model, given, l->arguments, (Object *)0);
  for (int i = 0; i < l->numbers; i++) Py_DecRef(given[l->number[i].position]);
  return result;
}

static bool has_type(Object *value, Object *type, Object *other) {
  Object *own = PyObject_Type(value);
  Py_DecRef(own);
  return own == type || own == other;
}

/* Find the tensors in what the model returned, without new references; false: not as expected. */
static bool found(Loop *l, Object *value, Result *results) {
  if (l->tensors == 1 && has_type(value, l->tensor_type, l->parameter_type)) {
    results[0].tensor = value;
    return true;
  }
  bool tuple = has_type(value, l->tuple_type, l->tuple_type);
  if (!tuple && !has_type(value, l->list_type, l->list_type)) return false;
  if ((tuple ? PyTuple_Size(value) : PyList_Size(value)) != l->tensors) return false;
  for (int i = 0; i < l->tensors; i++) {
    results[i].tensor = tuple ? PyTuple_GetItem(value, i) : PyList_GetItem(value, i);
    if (!has_type(results[i].tensor, l->tensor_type, l->parameter_type)) return false;
  }
  return true;
}

/* Ask a tensor where it lies; false: its strides are others, or an exception is set. */
static bool placed(Loop *l, Result *result, const int64_t *strides, int dims) {
  Object *at = PyObject_Vectorcall(l->data_ptr, &result->tensor, 1, (Object *)0);
  if (!at) return false;
  result->address = PyLong_AsUnsignedLongLongMask(at);
  Py_DecRef(at);
  Object *steps = PyObject_Vectorcall(l->stride, &result->tensor, 1, (Object *)0);
  bool same = steps && PyTuple_Size(steps) == dims;
  for (int i = 0; same && i < dims; i++)
    same = PyLong_AsLongLong(PyTuple_GetItem(steps, i)) == strides[i];
  if (steps) Py_DecRef(steps);
  return same;
}

/* Take references to the results, or to copies of them. */
static bool own(Loop *l, Result *results) {
  for (int i = 0; i < l->tensors; i++) {
    Object *tensor = results[i].tensor;
    if (l->copying) tensor = PyObject_Vectorcall(l->clone, &tensor, 1, (Object *)0);
    else Py_IncRef(tensor);
    results[i].tensor = tensor;
    if (!tensor) {
      while (i--) Py_DecRef(results[i].tensor);
      return false;
    }
  }
  return true;
}

/* Write where results lie; their strides were written by Python, for the first of them. */
static bool tell(Loop *l, Result *results) {
  const int64_t *strides = l->strides;
  for (int i = 0; i < l->tensors; strides += l->dims[i++])
    if (!placed(l, &results[i], strides, l->dims[i])) return false;
  char *told = l->told;
  for (int i = 0; i < l->tensors; told += 8 * (1 + l->dims[i++]))
    memcpy(told, &results[i].address, 8);
  return true;
}

static bool lies_where_another_does(Loop *l, Result *results) {
  for (uint32_t left = l->used; left; left &= left - 1) {
    Held *other = &l->held[__builtin_ctz(left)];
    for (int i = 0; i < l->tensors; i++)
      for (int k = 0; k < l->tensors; k++)
        if (l->filled[i] && l->filled[k] && results[i].address == other->results[k].address)
          return true;
  }
  return false;
}

static int call(Loop *l) {
  int64_t number = l->calls + 1, oldest = number - l->request.count;
  /* First, so that the new results can use the memory of old ones. */
  for (uint32_t left = l->used; left; left &= left - 1) {
    int slot = __builtin_ctz(left);
    int64_t call = l->held[slot].call;
    if (call < oldest && call != (int64_t)l->request.item) release(l, slot);
  }
  int slot = __builtin_ctz(~l->used);
  if (slot >= HELD) return REQUEST;
  Object *value = called(l);
  if (!value) return RAISED;
  Held *held = &l->held[slot];
  bool owned = found(l, value, held->results) && own(l, held->results);
  if (owned && tell(l, held->results) && !lies_where_another_does(l, held->results)) {
    Py_DecRef(value);
    held->call = l->calls = number;
    l->last = slot;
    l->used |= 1u << slot;
    return -1;
  }
  if (owned) release(l, slot);
  l->returned = value;
  return PyErr_Occurred() ? RAISED : RETURNED;
}

/* Receive a request; calls of an armed loop are answered, and the next request is received. */
extern "C" int akg_receive(Loop *l) {
  for (;;) {
    char control[CMSG_SPACE(FDS * sizeof(int))];
    iovec part = {&l->request, sizeof(Request)};
    msghdr message = {};
    message.msg_iov = &part, message.msg_iovlen = 1;
    message.msg_control = control, message.msg_controllen = sizeof control;
    /* Other threads of the kernel wait meanwhile for the interpreter's lock. */
    l->size = recvmsg(l->channel, &message, MSG_CMSG_CLOEXEC);
    if (l->size < 0 && errno == EINTR) {
      if (PyErr_CheckSignals()) return RAISED;
      continue;
    }
    l->received = 0;
    for (cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
      if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        l->received = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(l->fds, CMSG_DATA(c), l->received * sizeof(int));
      }
    if (!l->armed || l->size != sizeof(Request)) return REQUEST;
    if (l->request.op == CALL) {
      int outcome = call(l);
      if (outcome >= 0) return outcome;
    } else if (l->request.op == WAKE) {
      if (!tell(l, l->held[l->last].results)) return PyErr_Occurred() ? RAISED : REQUEST;
    } else {
      return REQUEST;
    }
    Answer answer = {l->request.nonce, OK, 0, 0};
    send(l->channel, &answer, sizeof answer, 0);
  }
}

extern "C" void akg_disarm(Loop *l) {
  while (l->used) release(l, __builtin_ctz(l->used));
  l->armed = 0;
}
"""

FLAGS = [
    "-O2",
    f"-DARGUMENTS={ARGUMENTS_MOST}",
    f"-DTENSORS={TENSORS_MOST}",
    f"-DSTRIDES={STRIDES_MOST}",
    f"-DNUMBERS={NUMBERS_MOST}",
    f"-DHELD={HELD_MOST}",
    f"-DFDS={FDS_MOST}",
    f"-DCALL={Op.CALL.value}",
    f"-DWAKE={Op.WAKE.value}",
    f"-DOK={Status.OK.value}",
]


class _Request(ctypes.Structure):
    _fields_ = (
        ("op", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("nonce", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("item", ctypes.c_uint32),
        ("wanted", ctypes.c_uint32),
    )


class _Number(ctypes.Structure):
    _fields_ = (
        ("at", ctypes.c_void_p),
        ("position", ctypes.c_int32),
        ("kind", ctypes.c_int32),
    )


class _Result(ctypes.Structure):
    _fields_ = (("tensor", ctypes.c_void_p), ("address", ctypes.c_uint64))


class _Held(ctypes.Structure):
    _fields_ = (("call", ctypes.c_int64), ("results", _Result * TENSORS_MOST))


class _Loop(ctypes.Structure):
    """As the C source declares it."""

    _fields_ = (
        ("request", _Request),
        ("channel", ctypes.c_int32),
        ("size", ctypes.c_int32),
        ("received", ctypes.c_int32),
        ("fds", ctypes.c_int32 * FDS_MOST),
        ("armed", ctypes.c_int32),
        ("copying", ctypes.c_int32),
        ("arguments", ctypes.c_int32),
        ("tensors", ctypes.c_int32),
        ("numbers", ctypes.c_int32),
        ("last", ctypes.c_int32),
        ("used", ctypes.c_uint32),
        ("calls", ctypes.c_int64),
        ("model", ctypes.c_void_p),
        ("returned", ctypes.c_void_p),
        ("tensor_type", ctypes.c_void_p),
        ("parameter_type", ctypes.c_void_p),
        ("tuple_type", ctypes.c_void_p),
        ("list_type", ctypes.c_void_p),
        ("data_ptr", ctypes.c_void_p),
        ("stride", ctypes.c_void_p),
        ("clone", ctypes.c_void_p),
        ("told", ctypes.c_void_p),
        ("dims", ctypes.c_int32 * TENSORS_MOST),
        ("filled", ctypes.c_int32 * TENSORS_MOST),
        ("strides", ctypes.c_int64 * STRIDES_MOST),
        ("number", _Number * NUMBERS_MOST),
        ("argument", ctypes.c_void_p * ARGUMENTS_MOST),
        ("held", _Held * HELD_MOST),
    )


class Requests:
    """The judge's requests to this child, except those that the loop answers itself."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._library = library()
        self._server: Server | None = None
        """The server whose calls the loop answers."""
        self._kept: list[object] = []
        """The objects that the loop points to."""
        self._loop = _Loop(
            channel=channel.fileno(),
            tensor_type=id(torch.Tensor),
            parameter_type=id(torch.nn.Parameter),
            tuple_type=id(tuple),
            list_type=id(list),
            data_ptr=id(torch.Tensor.data_ptr),
            stride=id(torch.Tensor.stride),
            clone=id(torch.Tensor.clone),
        )

    def receive(self) -> tuple[bytes, list[int], Outcome | None]:
        """Return the next request for Python, with its descriptors.

        For a call that the loop began, the outcome of the model's call comes with it.
        """
        if self._library is None:
            return *protocol.receive(self._channel, FDS_MOST, protocol.REQUEST.size), None
        loop, outcome = self._loop, None
        try:
            self._library.akg_receive(ctypes.byref(loop))
        except BaseException as error:  # noqa: BLE001 (a kernel may raise SystemExit)
            outcome = functools.partial(_raise, error)
        if loop.returned:
            returned = ctypes.cast(loop.returned, ctypes.py_object)
            outcome = outcome or functools.partial(_same, returned.value)
            ctypes.pythonapi.Py_DecRef(returned)
            loop.returned = None
        self._disarm()
        data = bytes(loop.request)[: max(loop.size, 0)]
        return data, list(loop.fds[: loop.received]), outcome

    def leave_the_interpreter(self) -> None:
        """From now on wait without the interpreter's lock: a queued call may need other threads."""
        self._library = None

    def arm(self, server: Server) -> None:
        """Have the loop answer the following calls of a server, if it can."""
        arguments, numbers = server.arguments, server.numbers
        last = server.results.get(server.calls, [])
        steps = [step for tensor in last for step in tensor.stride()]
        if (
            self._library is None
            or not server.is_plain
            or not 0 < len(last) <= TENSORS_MOST
            or len(steps) > STRIDES_MOST
            or len(numbers) > NUMBERS_MOST
            or len(arguments) > ARGUMENTS_MOST
            or len(server.results) > HELD_MOST
        ):
            return
        loop, model = self._loop, server.model
        told = ctypes.c_char.from_buffer(server.memory["addresses"])
        self._server, self._kept = server, [model, told, *arguments]
        loop.model, loop.told, loop.calls = id(model), ctypes.addressof(told), server.calls
        loop.arguments, loop.numbers = len(arguments), len(numbers)
        loop.copying = server.is_copying
        loop.argument[: len(arguments)] = [id(value) for value in arguments]
        for at, (position, view) in enumerate(numbers):
            loop.number[at] = _Number(view.data_ptr(), position, NUMBER_KINDS[view.dtype])
        loop.tensors, loop.strides[: len(steps)] = len(last), steps
        for i, tensor in enumerate(last):
            loop.dims[i], loop.filled[i] = tensor.dim(), tensor.numel() > 0
        for slot, (call, tensors) in enumerate(server.results.items()):
            loop.held[slot].call = call
            for i, tensor in enumerate(tensors):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
                loop.held[slot].results[i] = _Result(id(tensor), tensor.data_ptr())
        loop.used, loop.last = (1 << len(server.results)) - 1, len(server.results) - 1
        server.results.clear()
        loop.armed = 1

    def _disarm(self) -> None:
        """Return the results that the loop holds to their server."""
        server, loop = self._server, self._loop
        if server is None or self._library is None:
            return
        held = [loop.held[slot] for slot in range(HELD_MOST) if loop.used >> slot & 1]
        for each in sorted(held, key=lambda each: int(each.call)):
            of_call = each.results[: loop.tensors]
            server.results[each.call] = [
                ctypes.cast(result.tensor, ctypes.py_object).value for result in of_call
            ]
        server.calls = loop.calls
        self._library.akg_disarm(ctypes.byref(loop))
        self._server = None
        self._kept.clear()


def _same(value: object) -> object:
    return value


def _raise(error: BaseException) -> object:
    raise error


@functools.cache
def library() -> ctypes.PyDLL | None:
    """Return the compiled loop; None where there is no compiler. Loaded once, before any fork."""
    with contextlib.suppress(dsl.CompilerMissing, dsl.CompileError, OSError):
        # Loaded again, as a library whose functions hold the interpreter's lock.
        return ctypes.PyDLL(dsl.compile_cpp(SOURCE, FLAGS)._name)
    return None
