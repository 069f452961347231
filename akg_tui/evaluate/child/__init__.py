"""The untrusted side: code that runs in a child process beside a kernel."""
