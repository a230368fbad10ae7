"""Nodes of the zone of federated StatefulSets: replicas, sets of them, and their ports."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from hanse.features.statefulsets.names import cluster_set_name
from hanse.model.dns.names import child_name
from hanse.model.dns.records import RecordType, ZoneNode, address_rdata, full_rrset, srv_rdata
from hanse.model.dns.service_records import port_name, target_rrsets
from hanse.model.kinds.stateful import NamedPort
from hanse.model.objects import ClusterId

T = TypeVar("T")
NEAR_WEIGHT, FAR_WEIGHT = 50, 5
"""The weights of SRV records for replicas in the client's cluster, and in others."""


class ReplicaAddress(Struct, frozen=True):
    """One replica: its label, the target of its SRV records, its addresses and its ports."""

    label: str
    target: bytes
    addresses: tuple[str, ...]
    ports: tuple[NamedPort, ...]
    is_near: bool = True
    """Whether it runs in the cluster of the client."""

    def srv_rdata(self, port: int) -> bytes:
        """Its SRV record for a port, of higher weight for clients in the same cluster."""
        return srv_rdata(port, self.target, weight=NEAR_WEIGHT if self.is_near else FAR_WEIGHT)


def replica_nodes(
    replicas: Iterable[ReplicaAddress], parent: bytes, ttl: int
) -> Iterator[ZoneNode]:
    """A node with the addresses of each replica, named by its label below `parent`.

    Without an IP address it has a CNAME of the first host name. Labels that make no valid name are
    left out.
    """
    for replica in replicas:
        name = child_name(replica.label, parent)
        if name is not None:
            yield ZoneNode(name, tuple(target_rrsets(replica.addresses, ttl)))


def set_nodes(
    name: bytes, replicas: Sequence[ReplicaAddress], ports: Sequence[NamedPort], ttl: int
) -> Iterator[ZoneNode]:
    """The node with the IP addresses and SRV records of all replicas, and nodes of its named ports.

    Host names of load balancers are left out of its addresses. A port without replicas has an empty
    node.
    """
    known = [a for replica in replicas for a in replica.addresses if address_rdata(a) is not None]
    rrsets = [*target_rrsets(known, ttl)]
    by_port = {p: [r.srv_rdata(p.port) for r in replicas if p in r.ports] for p in ports}
    every = [record for records in by_port.values() for record in records]
    if every:
        rrsets.append(full_rrset(RecordType.SRV, distinct(every), ttl))
    yield ZoneNode(name, tuple(rrsets))
    by_name: dict[bytes, list[bytes]] = {}
    for port, records in by_port.items():
        own = port_name(port.name, port.protocol, name)
        if own is not None:
            by_name.setdefault(own, []).extend(records)
    for own, records in by_name.items():
        srv = (full_rrset(RecordType.SRV, distinct(records), ttl),) if records else ()
        yield ZoneNode(own, srv)


def distinct(values: Iterable[T]) -> list[T]:
    """Each value once, in order."""
    return list(dict.fromkeys(values))


def is_replica_of(label: str, name: str, cluster: ClusterId) -> bool:
    """Whether a host name is `<set>-<cluster>-<ordinal>` for this set and cluster."""
    stateful_set, _, ordinal = label.rpartition("-")
    return stateful_set == cluster_set_name(name, cluster) and ordinal.isdecimal()


def name_in_namespace(name: str, namespace: str, parent: bytes) -> bytes | None:
    """`<name>.<namespace>` below a name; None if that would be invalid."""
    namespace_domain = child_name(namespace, parent)
    return child_name(name, namespace_domain) if namespace_domain is not None else None
