"""`hanse guard`: keeps the networks of tenants apart on a node."""
