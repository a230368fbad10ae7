"""The local federation: clusters, their agents, and what a person can do to them while they run."""
