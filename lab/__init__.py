"""Training, benches and the large simulation: not distributed, and nothing in src imports it."""
