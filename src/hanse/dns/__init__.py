"""The DNS server: compiles zone data, and serves them from worker processes."""
