"""What stands in for a model and a device: for benchmarks and tests.

A server of the Messages API speaks the protocol byte by byte and checks it.

`server` is the HTTP, `replies` what is sent, `rules` what a request must be, `cache` the
prompt cache with its clock, `player` a model that can play.
"""
