"""The rules, as values: phases, plan items, events, decisions and the fold over them.

Pure: no I/O, clock, randomness, asyncio, screen or torch. Whatever is not a
function of its arguments belongs to a floor above.
"""
