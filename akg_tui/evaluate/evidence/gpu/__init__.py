"""What follows from a GPU's code alone: its hot loop, and the banks that accesses meet in."""
