"""Tools of MCP servers: a person approves each server before it starts, and each tool."""
