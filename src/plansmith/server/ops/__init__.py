"""What whoever runs the server needs: logs, metrics, tracing, one leader."""
