"""Creates, plans, reviews, executes, stops, revises and repeats runs."""
