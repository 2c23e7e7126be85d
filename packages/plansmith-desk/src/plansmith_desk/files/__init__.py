"""Tools that read, write and move files, and what a call would do to them."""
