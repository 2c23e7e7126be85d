"""Output of the command line: progress, results, texts."""
