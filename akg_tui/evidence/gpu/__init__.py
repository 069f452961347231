"""What follows from a GPU's code alone: its instructions and its resources."""
