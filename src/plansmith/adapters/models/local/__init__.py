"""The embedded model: weights by content, a runtime in this process, drafting for small models."""
