"""Trains the adapter of the embedded model: rows, prompts, token ids, network, conversion."""
