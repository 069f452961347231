"""Importing this puts the device in the place of `cuda`: for a judge, by `Judge(modules=…)`."""

from tests.lab.device import target

target.install()
