"""Benchmarks of the workbench, the judge and the store, and the maker of the gallery.

Part of them are commands of `akg-tui` (`bench`, `gallery`) and ship with it; the others drive the
fakes of tests/ and run in a checkout only, by `python -m benchmarks NAME`.
"""
