"""JSON in any text, however badly written: read whole, or step by step as it arrives."""
