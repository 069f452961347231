import torch


def get_inputs(param, device=None):
    shapes = eval(param["shapes"])
    parts = [torch.randn(shape, device=device) for shape in shapes]
    return (parts, torch.randn(param["width"], device=device))


def get_init_inputs(param, device=None):
    return [param["alpha"], param["flipped"]]


from framework.utils import check_precision


def custom_check_precision(param, outputs, outputs_new):
    return check_precision(outputs, outputs_new, max_abs_error=0.01)
