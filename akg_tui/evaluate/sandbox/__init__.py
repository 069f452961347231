"""What confines a child process: namespaces, Landlock, seccomp, and which this machine has."""
