"""Tenant networks: phases, pools, and who can reach whom by what is written."""

from collections.abc import Iterable

from hanse.features.networks.lookups import PODS_BY_NETWORK, SERVICES_BY_NETWORK
from hanse.features.networks.names import NETWORK, TENANT, parse_network_name
from hanse.features.networks.ranges import parse_range, usable_addresses
from hanse.features.networks.reachability import reachability_matrix
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.networking import NetworkPolicy
from hanse.model.kinds.networks import Network, NetworkPeering
from hanse.model.objects import ClusterId
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import ClusterPart, FeatureItem, Item, State

NEARLY_FULL = 90
"""Of a hundred addresses: from there on a pool is worth a look."""

MOST = 40
"""Networks up to which the whole matrix is computed for a page; `hanse networks` does the rest."""

_STATES: dict[str, State] = {"Ready": "good", "Failed": "bad", "Unknown": "bad"}


class NetworksSection:
    """Every tenant network of every cluster."""

    name = "networks"
    reads: tuple[Watch, ...] = ()

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        return {f"{where}/{one.name}" for where, one in snapshot.everywhere(Network)}

    def keys_for(self, change: Change) -> Iterable[str]:
        """The changed Network, or that of a changed Service or pod with a tenant label."""
        if isinstance(change, FactChange):
            return ()
        match change.object:
            case Network() as network:
                return (f"{change.where}/{network.name}",)
            case Service() | Pod() as held if TENANT in held.metadata.labels:
                labels = held.metadata.labels
                return (f"{change.where}/{labels[TENANT]}.{labels.get(NETWORK, 'default')}",)
            case _:
                return ()

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> FeatureItem | None:
        """The item of a Network, with the use of its service ranges; None if it is gone."""
        where, _, name = key.partition("/")
        network = snapshot.get(where, Network, name)
        if network is None:
            return None
        spec, status = network.spec, network.status
        services = sum(1 for _ in snapshot.by(where, SERVICES_BY_NETWORK, name))
        pods = sum(1 for _ in snapshot.by(where, PODS_BY_NETWORK, name))
        size = sum(usable_addresses(r) for cidr in spec.service.cidrs if (r := parse_range(cidr)))
        used = round(100 * services / size) if size else 0
        return FeatureItem(
            namespace=where,
            name=name,
            state=_STATES.get(status.phase, "warn"),
            told=status.phase or "Pending",
            facts=(
                ("Type", spec.type),
                ("DNS", status.dns_service_ip),
                ("Service ranges", ", ".join(spec.service.cidrs)),
                ("Pods", str(pods)),
                ("Services", str(services)),
            ),
            parts=(
                (
                    ClusterPart(
                        cluster=where,
                        state="warn" if used >= NEARLY_FULL else "good",
                        text="of its pool",
                        share=used,
                    ),
                )
                if size
                else ()
            ),
            problems=(status.message,) if status.message and status.phase != "Ready" else (),
        )


class MatrixItem(Item, frozen=True, kw_only=True):
    """Who reaches whom in one cluster: a row for each network."""

    cluster: ClusterId
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


class ReachSection:
    """What policies let through, by cluster."""

    name = "reach"
    reads: tuple[Watch, ...] = ()

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        return snapshot.clusters

    def keys_for(self, change: Change) -> Iterable[str]:
        """The cluster of a changed Network, NetworkPolicy, NetworkPeering or Namespace."""
        concerned = (Network, NetworkPolicy, NetworkPeering, Namespace)
        if isinstance(change, FactChange) or not isinstance(change.object, concerned):
            return ()
        return (change.where,)

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> MatrixItem | None:
        """The reachability matrix of a cluster; None without networks.

        Only the first `MOST` networks by name are included; `left_out` counts the others.
        """
        networks = sorted(one.name for one in snapshot.all(key, Network))
        if not networks:
            return None
        found = reachability_matrix(
            snapshot.all(key, Namespace),
            (),
            list(snapshot.all(key, NetworkPolicy)),
            [parse_network_name(name) for name in networks[:MOST]],
        )
        return MatrixItem(
            cluster=key,
            names=found.names,
            rows=tuple(tuple(found.reach[a, b] for b in found.names) for a in found.names),
            left_out=max(0, len(networks) - MOST),
        )
