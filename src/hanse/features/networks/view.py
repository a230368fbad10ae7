"""Tenant networks: phases, pools, and who can reach whom by what is written."""

from collections.abc import Iterable, Iterator, Sequence

from hanse.features.networks.lookups import PODS_BY_NETWORK, SERVICES_BY_NETWORK
from hanse.features.networks.names import NETWORK, TENANT, parse_network_name
from hanse.features.networks.ranges import parse_range, usable_addresses
from hanse.features.networks.reachability import reachability_matrix
from hanse.model.facts import Role
from hanse.model.findings import Finding, Severity, remedy
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.networking import NetworkPolicy
from hanse.model.kinds.networks import Network, NetworkPeering, Tenant
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.object_view import (
    ConditionRule,
    ObjectRule,
    ObjectsView,
    check_conditions,
    object_finding,
)
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import ClusterPart, FeatureItem, Item, State, state_of

NEARLY_FULL = 90
"""Of a hundred addresses: from there on a pool is worth a look."""

MOST = 40
"""Networks up to which the whole matrix is computed for a page; `hanse networks` does the rest."""

_CONCERNED = (Network, NetworkPeering, Namespace, NetworkPolicy, ClusterNetworkPolicy)

_STATES: dict[str, State] = {"Ready": "good", "Failed": "bad", "Unknown": "bad"}


def _network_names(obj: Object) -> Iterator[str]:
    """The name of a Network, or that of the network of a Service or pod by its labels.

    Without a network label that is the tenant's default one; none without a tenant label, and for
    other objects.
    """
    match obj:
        case Network():
            yield obj.name
        case Service() | Pod() if TENANT in obj.metadata.labels:
            labels = obj.metadata.labels
            yield f"{labels[TENANT]}.{labels.get(NETWORK, 'default')}"


class NetworksView:
    """Every tenant network of every cluster."""

    name = "networks"
    reads = (
        Watch(Role.LOCAL, Network),
        Watch(Role.LOCAL, Service, labels=TENANT, indexes=(SERVICES_BY_NETWORK,)),
        Watch(Role.LOCAL, Pod, labels=TENANT, indexes=(PODS_BY_NETWORK,)),
    )

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """`cluster/network` of every Network in any cluster."""
        return {f"{where}/{one.name}" for where, one in snapshot.everywhere(Network)}

    def keys_for(self, change: Change) -> Iterable[str]:
        """The key of a changed Network, or those of a Service's or pod's before and after a change.

        These are by its tenant label; no label of a network means the default one. Facts and other
        kinds have none.
        """
        if isinstance(change, FactChange):
            return ()
        sides = (side for side in (change.before, change.after) if side is not None)
        return {f"{change.where}/{name}" for side in sides for name in _network_names(side)}

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> FeatureItem | None:
        """The item of a Network: phase, pods, Services, and use of its service ranges.

        The use is the number of Services per usable address of spec.service.cidrs. None if the
        Network is gone; while its cluster is unreachable its phase is shown as not known.
        """
        where, _, name = key.partition("/")
        network = snapshot.get(where, Network, name)
        if network is None:
            return None
        spec, status = network.spec, network.status
        phase, message = status.phase or "Pending", status.message
        fault = snapshot.fault_of(where)
        lost = fault is not None and fault.code == "ClusterUnreachable"
        problems = (message,) if message and phase != "Ready" else ()
        if lost:
            problems = (f"cluster {where} is not reached: the network was {phase}", *problems)
        services = sum(1 for _ in snapshot.by(where, SERVICES_BY_NETWORK, name))
        pods = list(snapshot.by(where, PODS_BY_NETWORK, name))
        size = sum(usable_addresses(r) for cidr in spec.service.cidrs if (r := parse_range(cidr)))
        used = round(100 * services / size) if size else 0
        findings = (
            *_findings(network, where, services, size, snapshot),
            *_stale_dns(network, where, pods, snapshot),
        )
        return FeatureItem(
            namespace=where,
            name=name,
            state=state_of(findings, "warn" if lost else _STATES.get(phase, "warn")),
            findings=findings,
            told="not known" if lost else phase,
            facts=(
                ("Type", spec.type),
                ("DNS", status.dns_service_ip),
                ("Service ranges", ", ".join(spec.service.cidrs)),
                ("Pods", str(len(pods))),
                ("Services", str(services)),
            ),
            parts=(
                (
                    ClusterPart(
                        cluster=where,
                        state="warn" if lost or used >= NEARLY_FULL else "good",
                        text="of its pool",
                        share=used,
                        ready=services,
                        all=size,
                    ),
                )
                if size
                else ()
            ),
            problems=problems,
        )


def _findings(
    network: Network, where: ClusterId, services: int, size: int, snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """NetworkFailed in phase Failed or Unknown; PoolExhausted or PoolNearlyFull by its Services.

    These at 100 and from 90 Services per 100 addresses; none without addresses (`size`).
    """
    if network.status.phase in ("Failed", "Unknown"):
        message = network.status.message or f"it is {network.status.phase}"
        yield object_finding(network, where, "NetworkFailed", message, snapshot)
    if size and services >= size * NEARLY_FULL / 100:
        full = services >= size
        edit = snapshot.kubectl(where, f"edit network {network.name}")
        yield object_finding(
            network,
            where,
            "PoolExhausted" if full else "PoolNearlyFull",
            f"{services} of {size} Service addresses are given out",
            snapshot,
            severity=Severity.DEGRADED if full else Severity.RISK,
            mend=remedy(advice=f"add a range to spec.service.cidrs: `{edit}`"),
        )


def _stale_dns(
    network: Network, where: ClusterId, pods: Sequence[Pod], snapshot: MultiClusterSnapshot
) -> Iterator[Finding]:
    """One finding DnsStale, if unfinished pods have nameservers without the address in the status.

    It lists the commands that delete these pods. None without such pods or address.
    """
    address = network.status.dns_service_ip
    stale = [pod for pod in pods if address and _asks_another(pod, address)]
    if not stale:
        return
    by_namespace: dict[str, list[str]] = {}
    for pod in stale:
        by_namespace.setdefault(pod.namespace, []).append(pod.name)
    yield object_finding(
        network,
        where,
        "DnsStale",
        f"its DNS moved to {address}, and {len(stale)} of {len(pods)} pods ask where it was",
        snapshot,
        mend=remedy(
            *(
                snapshot.kubectl(where, f"delete pods {' '.join(sorted(names))}", namespace)
                for namespace, names in sorted(by_namespace.items())
            ),
            advice="their controllers make them anew, with the address that it has now",
        ),
    )


def _asks_another(pod: Pod, address: str) -> bool:
    """Whether an unfinished pod has nameservers in its dnsConfig, none of which is the address.

    False for a pod without nameservers.
    """
    config, done = pod.spec.dns_config, pod.status.phase in ("Succeeded", "Failed")
    servers = config.nameservers if config is not None else ()
    return bool(servers) and address not in servers and not done


class MatrixItem(Item, frozen=True, kw_only=True):
    """Who reaches whom in one cluster: a row for each network."""

    cluster: ClusterId
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0


class ReachView:
    """What policies let through, by cluster."""

    name = "reach"
    reads: tuple[Watch, ...] = ()

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        """The ids of all clusters."""
        return snapshot.clusters

    def keys_for(self, change: Change) -> Iterable[str]:
        """The cluster of a changed Network, policy, NetworkPeering or Namespace; else none."""
        if isinstance(change, FactChange) or not isinstance(change.object, _CONCERNED):
            return ()
        return (change.where,)

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> MatrixItem | None:
        """The reachability matrix of a cluster, for a new pod in each namespace of a tenant.

        None without networks, or where NetworkPolicies were not listed. Existing pods and policies
        of Antrea count in `hanse networks matrix` alone. `left_out` counts the networks after the
        first `MOST`.
        """
        networks = sorted(one.name for one in snapshot.all(key, Network))
        if not networks or not snapshot.listed(key, NetworkPolicy):
            return None
        found = reachability_matrix(
            snapshot.all(key, Namespace),
            (),
            list(snapshot.all(key, NetworkPolicy)),
            [parse_network_name(name) for name in networks[:MOST]],
            list(snapshot.all(key, ClusterNetworkPolicy)),
        )
        return MatrixItem(
            cluster=key,
            names=found.names,
            rows=tuple(tuple(found.reach[a, b] for b in found.names) for a in found.names),
            left_out=max(0, len(networks) - MOST),
        )


OBJECTS = ObjectsView(
    "network-objects",
    (ObjectRule(Tenant, check_conditions({"Ready": ConditionRule("TenantFailed")})),),
)
"""Tenants that do not have what they ask for."""
