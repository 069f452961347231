"""The messages between engine, judge, zygote and children, and how values lie in memory."""
