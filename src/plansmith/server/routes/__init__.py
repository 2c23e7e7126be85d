"""The handlers of the HTTP API, one file a noun."""
