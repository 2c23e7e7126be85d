"""Reports on runs: results, changes and decisions, each proven by the journal."""
