"""The embedded model: model files, a runtime in this process, drafting for small models."""
