"""`hanse statefulsets`: the replicas of federated StatefulSets."""
