"""From an approved plan to results: scheduled, called, journaled, recovered (floor 5)."""
