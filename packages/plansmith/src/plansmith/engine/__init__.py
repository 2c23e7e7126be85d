"""Executes approved plans: calls steps in parallel, records every event, recovers after crashes."""
