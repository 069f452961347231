"""The workbench: the screens that show a run, and the keys that steer it."""
