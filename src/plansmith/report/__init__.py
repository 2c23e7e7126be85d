"""Reports: what came of a run, proven by its journal."""
