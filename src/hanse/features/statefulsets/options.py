"""What an installation chooses about federated StatefulSets."""

from msgspec import Struct


class StatefulSetOptions(Struct, frozen=True):
    """The zone of replicas' names, and the federation's own name within it."""

    zone: str = "example.com"
    federation: str = "myfederation"
