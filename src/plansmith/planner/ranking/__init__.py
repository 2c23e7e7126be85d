"""What shortlist is made of: words and their kin, tool cards, a lexical index."""
