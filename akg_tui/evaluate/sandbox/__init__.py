"""The confinement of a child process: namespaces, Landlock, seccomp, limits, its build cache."""
