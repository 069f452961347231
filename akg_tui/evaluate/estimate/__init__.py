"""Estimates of a kernel's time on hardware that is not here, from what its compiler tells.

An estimate ranks kernels so that few must be measured. It is never a measurement: no KEEP, no ratio
and no goal comes from one, and its input is answered by untrusted code.
"""
