"""The shapes plans come and go in; `native` is Plansmith's own (floor 2)."""
