"""Hanse: a federation control plane for Kubernetes. Many clusters, one network."""

__version__ = "0.2.0"
