"""Clusters on this machine: embedded in our process, or real ones as supervised processes."""
