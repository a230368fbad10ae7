"""Multi-cluster services: exports of clusters merged into imports everywhere."""
