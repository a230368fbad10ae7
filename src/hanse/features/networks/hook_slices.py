"""Endpoints of tenants' Services: in their Service's network, and leading nowhere else."""

from collections.abc import Iterator

from hanse.features.networks.addresses import parse_address
from hanse.features.networks.admission import (
    TENANT_NAMESPACES,
    RequestDenied,
    evaluate,
    is_own_write,
    is_trusted,
    labels_of,
    resolve_network,
)
from hanse.features.networks.feature import Networks
from hanse.features.networks.lookups import PODS_BY_ADDRESS
from hanse.features.networks.names import NETWORK, TENANT, NetworkName
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE
from hanse.model.objects import Wire
from hanse.model.snapshot import Snapshot
from hanse.model.verdict import Allow, Asks, Review, Verdict


class SlicesHook:
    """Endpoints written by hand get their Service's network, and lead nowhere else."""

    name = "networks-slices"
    asks = tuple(
        Asks((group,), resources, ("CREATE", "UPDATE"), namespaces=TENANT_NAMESPACES, changes=True)
        for group, resources in (
            ("discovery.k8s.io", ("endpointslices",)),
            ("", ("endpoints",)),  # which the cluster makes slices of
        )
    )

    def __init__(self, feature: Networks) -> None:
        self._feature = feature

    def review(self, review: Review, snapshot: Snapshot) -> Verdict:
        return evaluate(self._admitted, review, snapshot)

    def _admitted(self, review: Review, snapshot: Snapshot) -> Verdict:
        labels = labels_of(review.object)
        if is_own_write(review, self._feature.options):
            return Allow()
        called = review.name if review.kind == "Endpoints" else labels.get(KUBE_SERVICE, "")
        service = snapshot.get(snapshot.local, Service, called, review.namespace)
        told = dict(labels)
        if service is not None and NETWORK in service.metadata.labels:
            wanted = service.metadata.labels[NETWORK]
            if told.setdefault(NETWORK, wanted) != wanted:
                raise RequestDenied(
                    f"metadata.labels[{NETWORK}]: Service {service.metadata.name} is in network "
                    f"{wanted}; remove the label"
                )
        at = resolve_network(told, review.namespace, snapshot, "metadata.labels")
        if not is_trusted(review, self._feature.options):
            _lead_home(review, at.name, snapshot)
        stamp = {TENANT: at.tenant, NETWORK: at.name.network}
        return Allow({"metadata": {"labels": stamp}})


def _lead_home(review: Review, name: NetworkName, snapshot: Snapshot) -> None:
    """Refuse endpoints that are pods of another network."""
    for field, text in _addresses(review.object):
        if is_foreign(text, name, snapshot):
            raise RequestDenied(
                f"{field}: {text} is a pod of another network than {name}; remove it"
            )


def _addresses(wire: Wire) -> Iterator[tuple[str, str]]:
    for number, endpoint in enumerate(wire.get("endpoints") or ()):
        for text in endpoint.get("addresses") or ():
            yield f"endpoints[{number}].addresses", str(text)
    for number, subset in enumerate(wire.get("subsets") or ()):
        for part in ("addresses", "notReadyAddresses"):
            for one in subset.get(part) or ():
                yield f"subsets[{number}].{part}", str(one.get("ip", ""))


def is_foreign(text: str, name: NetworkName, snapshot: Snapshot) -> bool:
    """Whether an address is known to be a pod's of another network."""
    pods = snapshot.by(snapshot.local, PODS_BY_ADDRESS, str(parse_address(text) or ""))
    own = (name.tenant, name.network)
    return any((p.metadata.labels.get(TENANT), p.metadata.labels.get(NETWORK)) != own for p in pods)
