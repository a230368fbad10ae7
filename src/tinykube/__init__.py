"""A small, honest Kubernetes API in this process: storage, semantics, HTTP, controllers."""
