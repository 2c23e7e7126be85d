"""Tell people outside the page that something waits for them."""
