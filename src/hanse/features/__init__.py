"""The decisions, one folder each. Pure: no I/O, no clock, and no feature imports another."""
