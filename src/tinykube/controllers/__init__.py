"""The few controllers an embedded cluster needs around its API server, as pure decisions."""
