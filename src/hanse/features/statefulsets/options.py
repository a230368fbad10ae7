"""Options of federated StatefulSets."""

from msgspec import Struct


class StatefulSetOptions(Struct, frozen=True):
    """The DNS zone of replicas, and the federation's name within it."""

    zone: str = "example.com"
    federation: str = "myfederation"

    @property
    def federation_zone(self) -> str:
        """The domain of the federation's own names: `<federation>.svc.<zone>`."""
        return f"{self.federation}.svc.{self.zone}"
