"""Problems of public task sets: readers of their formats, sizes that fit, and first kernels.

Reads files and syntax trees only: nothing of a problem is run here.
"""
