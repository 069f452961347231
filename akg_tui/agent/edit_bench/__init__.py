"""Which edit format a model repairs kernels best with: tasks, sessions, paired statistics.

The mechanical half of the benchmark is `akg_tui.hashline.bench`; this half needs a model.
"""
