"""Clusters on this machine: embedded ones in our own process, and real ones as supervised processes."""
