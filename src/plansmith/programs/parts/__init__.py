"""What every written program holds, word for word: references, rules of steps, and an engine."""
