"""The untrusted side: what runs in a child process beside a kernel, and its protocol."""
