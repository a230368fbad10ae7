"""Benchmarks: `python -m bench`; each row is measured beside the limit that it is held against."""
