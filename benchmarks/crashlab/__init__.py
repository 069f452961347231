"""Kills, disk errors and power losses at every step on the disk of a run, its end checked."""
