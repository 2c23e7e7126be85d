"""Language models behind the ChatModel port."""
