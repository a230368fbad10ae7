"""Faults planted by hand, to see whether laws and tests notice them (`make mutants`)."""
