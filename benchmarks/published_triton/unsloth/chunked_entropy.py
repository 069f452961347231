"""Cross entropy of more classes than a block holds: log sums of chunks, with a soft cap of logits."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

FAULT = "y * (1.0 - partial * partial)", "y"
triton_tanh = libdevice.tanh
triton_cast = tl.cast


def _chunked_forward(
    logits_ptr, logits_row_stride: tl.constexpr, loss_ptr, logsumexp_ptr, labels_ptr,
    VOCAB_SIZE: tl.constexpr, N_CHUNKS: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    DO_SOFTCAPPING: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    row_idx, chunk_idx = tl.program_id(0), tl.program_id(1)
    logits_ptr += row_idx * triton_cast(logits_row_stride, tl.int64)
    loss_ptr += row_idx
    logsumexp_ptr += row_idx * N_CHUNKS + chunk_idx
    labels_ptr += row_idx
    col_offsets = chunk_idx * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < VOCAB_SIZE
    label_idx = tl.load(labels_ptr).to(tl.int32)
    logits = tl.load(logits_ptr + col_offsets, mask=mask, other=-float("inf")).to(tl.float32)
    if DO_SOFTCAPPING:
        logits = SOFTCAP * triton_tanh(logits / SOFTCAP)
        logits = tl.where(mask, logits, -float("inf"))
    c = tl.max(logits, 0)
    logsumexp = c + tl.log(tl.sum(tl.exp(logits - c), 0))
    if chunk_idx == 0:
        if label_idx != -100:
            x = tl.load(logits_ptr + label_idx).to(tl.float32)
            if DO_SOFTCAPPING:
                x = SOFTCAP * triton_tanh(x / SOFTCAP)
            loss = -1.0 * x
        else:
            loss = 0.0
        tl.store(loss_ptr, loss)
    tl.store(logsumexp_ptr, logsumexp)


_chunked_forward = triton.jit(_chunked_forward)
_chunked_forward = triton.heuristics(
    {"DO_SOFTCAPPING": lambda args: bool(args["DO_SOFTCAPPING"])}
)(_chunked_forward)  # fmt: skip


@triton.jit
def _backward(
    logits_ptr, logits_row_stride: tl.constexpr, dloss_ptr, dloss_row_stride: tl.constexpr,
    logsumexp_ptr, labels_ptr, VOCAB_SIZE: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    DO_SOFTCAPPING: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    row_idx, block_idx = tl.program_id(0), tl.program_id(1)
    logits_ptr += row_idx * triton_cast(logits_row_stride, tl.int64)
    dloss_ptr += row_idx * dloss_row_stride
    col_offsets = block_idx * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < VOCAB_SIZE
    label_idx = tl.load(labels_ptr + row_idx).to(tl.int32)
    if label_idx != -100:
        dloss = tl.load(dloss_ptr)
    else:
        dloss = 0.0
    x = tl.load(logits_ptr + col_offsets, mask=mask, other=-float("inf")).to(tl.float32)
    partial = x
    if DO_SOFTCAPPING:
        partial = triton_tanh(x / SOFTCAP)
        x = SOFTCAP * partial
    y = tl.exp(x - tl.load(logsumexp_ptr + row_idx))
    y = tl.where(col_offsets == label_idx, y - 1.0, y)
    if DO_SOFTCAPPING:
        y = y * (1.0 - partial * partial)
    tl.store(logits_ptr + col_offsets, dloss * y, mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, logits, labels):
        logits = logits.contiguous().clone()
        n_rows, vocab = logits.shape
        losses = torch.empty(n_rows, dtype=torch.float32, device="cuda:0")
        div, mod = divmod(vocab, 64)
        n_chunks = div + (mod != 0)
        parts = torch.empty((n_rows, n_chunks), dtype=torch.float32, device="cuda:0")
        with torch.cuda.device(logits.device):
            _chunked_forward[(n_rows, n_chunks)](
                logits, logits.stride(0), losses, parts, labels, VOCAB_SIZE=vocab,
                N_CHUNKS=n_chunks, BLOCK_SIZE=64, DO_SOFTCAPPING=True, SOFTCAP=3.0, num_warps=32,
            )  # fmt: skip
        logsumexp = torch.logsumexp(parts, dim=1)
        losses += logsumexp
        losses.masked_fill_(labels == -100, 0)
        dlosses = torch.full((n_rows,), 0.5, device=logits.device)
        _backward[(n_rows, n_chunks)](
            logits, logits.stride(0), dlosses, dlosses.stride(0), logsumexp, labels,
            VOCAB_SIZE=vocab, BLOCK_SIZE=64, DO_SOFTCAPPING=True, SOFTCAP=3.0, num_warps=8,
        )  # fmt: skip
        return losses, logits


class Model(torch.nn.Module):
    def forward(self, logits, labels):
        with torch.enable_grad():
            x = logits.detach().requires_grad_()
            capped = 3.0 * torch.tanh(x.float() / 3.0)
            losses = torch.nn.functional.cross_entropy(capped, labels, reduction="none")
            (losses.sum() * 0.5).backward()
        return losses.detach(), x.grad


def get_inputs():
    labels = torch.randint(0, 150, (5,), device="cuda")
    return [torch.randn(5, 150, device="cuda", dtype=torch.bfloat16) * 2, labels]


def get_init_inputs():
    return []
