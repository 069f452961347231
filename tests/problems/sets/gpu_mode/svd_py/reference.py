import torch
from task import input_t, output_t


def ref_kernel(data: input_t) -> output_t:
    u, s, vh = torch.linalg.svd(data, full_matrices=False)
    return u, s, vh


def generate_input(batch: int, n: int, seed: int) -> input_t:
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    return torch.randn(batch, n, n, device="cuda", dtype=torch.float32, generator=gen)


def _far(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().amax())


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    u, s, vh = (each.double() for each in output)
    a, eye = data.double(), torch.eye(data.shape[-1], device=data.device, dtype=torch.float64)
    if max(_far(u.mT @ u, eye), _far(vh @ vh.mT, eye)) > 1e-4:
        return False, "the factors are not orthogonal"
    if bool((s[..., 1:] > s[..., :-1] + 1e-4).any()) or bool((s < 0).any()):
        return False, "the singular values do not descend"
    scale = max(1.0, float(a.abs().amax()))
    return _far(u * s.unsqueeze(-2) @ vh, a) <= 1e-4 * scale, "U diag(S) Vh is not A"
