"""Tools and agents of other people: MCP servers and A2A agents."""
