"""StatefulSets with replicas distributed over the clusters of a fleet."""
