"""Rankers of tools and agents behind the Ranker port."""
