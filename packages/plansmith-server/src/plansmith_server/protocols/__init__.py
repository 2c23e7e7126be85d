"""The MCP and A2A servers."""
