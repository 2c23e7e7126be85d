"""MCP servers as tools: each approved by a person before it starts, each tool pinned by content."""
