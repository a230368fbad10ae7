"""One API server: credentials, client, list-and-watch, store, leases, and the errors it can give."""
