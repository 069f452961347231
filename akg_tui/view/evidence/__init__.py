"""Machine code and the roofline as rows of a screen. Pure."""
