"""The sandbox's child process: a package of its own, so that a child loads nothing else."""
