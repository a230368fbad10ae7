"""A Kubernetes API server in a Python process, for tests and laptops; see README.md."""
