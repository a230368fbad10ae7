"""Real Kubernetes clusters as processes on loopback: built, started, watched, stopped."""
