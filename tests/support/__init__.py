"""What tests stand on: builders, clusters in process, faults between parties, virtual time."""
