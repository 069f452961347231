from utils import make_match_reference, DisableCuDNNTF32
from task import input_t, output_t
import torch


def ref_kernel(data: input_t) -> output_t:
    with DisableCuDNNTF32():
        x, weights, config, shift = data
        gate = torch.sigmoid(x @ weights["gate.weight"].T + shift)
        up = x @ weights["up.weight"].T
        return gate * up * (config["scale"] if config["scaled"] else 1.0)


def generate_input(rows: int, dim: int, hidden: int, scaled: bool, seed: int) -> input_t:
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    weights = {}
    for name in ("gate", "up"):
        drawn = torch.randn(hidden, dim, device="cuda", generator=gen)
        weights[f"{name}.weight"] = drawn / dim**0.5
    config = {"scale": 0.5, "scaled": scaled}
    x = torch.randn(rows, dim, device="cuda", generator=gen)
    return x, weights, config, torch.randn(hidden, device="cuda", generator=gen)


check_implementation = make_match_reference(ref_kernel, rtol=1e-3, atol=1e-3)
