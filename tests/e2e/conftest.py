"""A browser and a server for the tests of the page."""

from __future__ import annotations

from tests.web.browser import chrome, stage, watched, watched_of_module

__all__ = ["chrome", "stage", "watched", "watched_of_module"]
