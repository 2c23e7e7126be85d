"""Walls around code of others: processes without network, with their own files alone."""
