"""The HTTP server: routes, events, the page's files, MCP and A2A."""
