"""The interfaces of five other systems, implemented with Plansmith."""
