"""The confinement of a child process: namespaces, Landlock, seccomp, and their availability."""
