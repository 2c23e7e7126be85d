"""Engines that carry runs to the processes that execute them."""
