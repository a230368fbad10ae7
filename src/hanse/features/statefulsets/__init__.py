"""StatefulSets whose replicas are spread over the clusters of a fleet."""
