"""The rules of a run as pure functions and values: phases, plan items, events, decisions, the fold.

Pure: no I/O, clock, randomness, asyncio, screen or torch. Code whose result depends on more
than its arguments belongs in a higher layer.
"""
