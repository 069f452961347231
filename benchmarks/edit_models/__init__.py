"""Which edit format a model repairs kernels best with: tasks, sessions, paired statistics.

The mechanical half of the benchmark is `benchmarks.edit_formats`; this half needs a model.
"""
