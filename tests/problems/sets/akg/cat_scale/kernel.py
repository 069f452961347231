import triton


class ModelNew:
    pass
