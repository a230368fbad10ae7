"""Clusters, agents and the connections between them: what is seen of them."""
