"""Side-by-side measurements; `scripts/bench` lists them. Never part of the tests."""
