"""Threads: requests that know what came before."""
