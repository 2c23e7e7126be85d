"""Context sources behind the ContextSource port: documents, business terms, database schemas."""
