"""Generates requests in made-up folders with the calls that answer them."""
