"""The client of one API server."""
