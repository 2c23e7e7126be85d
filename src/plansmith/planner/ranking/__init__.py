"""What shortlist is made of: words and their synonyms, tool cards, a lexical index."""
