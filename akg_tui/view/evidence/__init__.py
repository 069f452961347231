"""Machine code, roofline and pipes as rows of a screen, as pictures and as lines. Pure."""
