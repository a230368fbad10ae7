"""Replication of federated Antrea policies between the members of a federation."""
