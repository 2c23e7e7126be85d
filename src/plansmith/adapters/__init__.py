"""Real implementations of the ports, one folder a port."""
