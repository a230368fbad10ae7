"""One API server: credentials, client, list-and-watch, store, leases, errors."""
