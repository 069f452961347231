"""Sizes of a gate."""

WIDTH = 160

SHAPES: list = [
    {"rows": 24, "width": WIDTH, "scale": 2},
    {"rows": 40, "width": 96, "scale": 2},  # a width that is no power of two
]
