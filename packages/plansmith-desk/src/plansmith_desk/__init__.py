"""Sources of tools behind the ToolSource port."""
