"""The child process of the sandbox: a package of its own, so that it imports nothing else."""
