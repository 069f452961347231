"""What a reference needs on this machine, found in a confined process before a task is made."""
