"""Importing this puts the device in the place of other targets: for a judge, by `modules`."""

from benchmarks.lab.device import target

target.install()
