"""The derived Service of an import: a Service without selector that gives it its addresses."""

from msgspec import Struct

from hanse.features.services.merge import MergedImport
from hanse.features.services.names import SERVICE_NAME
from hanse.features.services.slices import address_family
from hanse.model.kinds.core import IPFamily, Service, ServicePort, ServiceSpec, TrafficPolicy
from hanse.model.naming import unique_name
from hanse.model.objects import Meta
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot


def derived_name(key: Key) -> str:
    """The name of the Service that gives an import its address."""
    return unique_name("derived", key.name)


def derived_service(key: Key, name: str, merged: MergedImport) -> Service:
    """The Service with the ports, affinity and traffic policy of the import, without a selector.

    It prefers dual stack; its traffic distribution is PreferClose if the import prefers zones, else
    unset.
    """
    return Service(
        metadata=Meta(name=name, namespace=key.namespace, labels={SERVICE_NAME: key.name}),
        spec=ServiceSpec(
            ports=tuple(
                ServicePort(
                    port=p.port, name=p.name, protocol=p.protocol, app_protocol=p.app_protocol
                )
                for p in merged.ports
            ),
            ip_family_policy="PreferDualStack",  # an extra family does no harm
            session_affinity=merged.session_affinity,
            session_affinity_config=merged.session_affinity_config,
            internal_traffic_policy=internal_traffic_policy(merged),
            traffic_distribution="PreferClose" if merged.prefers_zones else "",
        ),
    )


def internal_traffic_policy(merged: MergedImport) -> TrafficPolicy:
    """`Local` if the merged exports have it, else `Cluster`, also for an empty value."""
    return "Local" if merged.internal_traffic_policy == "Local" else "Cluster"


class ClusterSetAddresses(Struct, frozen=True):
    """The addresses of an import in this cluster, and their families."""

    families: tuple[IPFamily, ...]
    ips: tuple[str, ...] = ()
    unsupported: tuple[IPFamily, ...] = ()
    """The families of this cluster, where the import has none of them."""


def derived_addresses(
    key: Key, name: str, merged: MergedImport, snapshot: Snapshot
) -> ClusterSetAddresses | None:
    """The cluster IPs of our derived Service in the import's families; None while it has none.

    None, too, if the Service is missing or lacks our label. If it has no family of the import,
    there are no addresses, and its families are `unsupported`; an import without families has all
    addresses.
    """
    service = snapshot.get(snapshot.local, Service, name, key.namespace)
    if service is None or service.metadata.labels.get(SERVICE_NAME) != key.name:
        return None
    allocated = {_ip_family(ip): ip for ip in service.spec.cluster_ips if ip and ip != "None"}
    if not allocated:
        return None
    shared = {f: ip for f, ip in allocated.items() if f in merged.ip_families}
    if not shared and merged.ip_families:
        return ClusterSetAddresses(merged.ip_families, unsupported=tuple(allocated))
    shared = shared or allocated
    return ClusterSetAddresses(tuple(shared), tuple(shared.values()))


def _ip_family(address: str) -> IPFamily:
    """`IPv4` or `IPv6`, as Services name the family of an address; ValueError for other texts."""
    return "IPv6" if address_family(address) == "IPv6" else "IPv4"
