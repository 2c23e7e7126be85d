"""Operating the server: logs, metrics, tracing, idempotency keys."""
