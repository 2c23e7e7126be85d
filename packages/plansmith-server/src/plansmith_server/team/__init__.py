"""Who uses a server: tokens, log-in by a provider, tenants, and notices to people."""
