"""The zone of a cluster's own Services, for federations whose clusters run no DNS themselves."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from hanse.model.dns.names import child_name, wire_name
from hanse.model.dns.records import ZoneNode, version_node
from hanse.model.dns.service_records import SCHEMA_VERSION, service_nodes
from hanse.model.dns.zones import View
from hanse.model.facts import Role
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.plan import Key
from hanse.model.snapshot import Change, FactChange, Index, ObjectChange, Snapshot, Watch

SERVICE = "cluster"
VERSION = Key("cluster-version")
ZONE = "cluster.local"

SLICES = Index(
    EndpointSlice,
    "dns-cluster-slices",
    lambda s: [f"{s.metadata.namespace}/{s.metadata.labels.get(KUBE_SERVICE, '')}"],
)


class ClusterZone:
    """The names of all Services of the view's cluster."""

    name = "cluster"
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, Service),
        Watch(Role.LOCAL, EndpointSlice, labels=KUBE_SERVICE, indexes=(SLICES,)),
    )

    def __init__(self, view: View, zone: str = ZONE) -> None:
        """The names of the local cluster's Services in `zone`, for a view; nothing is read yet.

        Raises InvalidName if `zone` is no domain name.
        """
        self.view = view
        self._apex = wire_name(zone)
        self._services = b"\x03svc" + self._apex
        self.zones: tuple[bytes, ...] = (self._apex,)

    def synced(self, snapshot: Snapshot) -> bool:
        """Whether the Services and EndpointSlices of this cluster are listed."""
        return all(snapshot.listed(snapshot.local, kind) for kind in (Service, EndpointSlice))

    def keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """The key of the schema version, and one for each Service of this cluster."""
        yield VERSION
        for service in snapshot.all(snapshot.local, Service):
            yield Key(SERVICE, service.metadata.name, service.metadata.namespace)

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys of the local Services that change, or whose EndpointSlices do.

        None for facts, other kinds and other clusters.
        """
        match change:
            case FactChange():
                return ()
            case ObjectChange(where) if where == snapshot.local:
                return set(_keys_of(change))
            case _:
                return ()

    def records_for(self, snapshot: Snapshot) -> Callable[[Key], Sequence[ZoneNode]]:
        """A function that builds all nodes of a Service, or the node of the schema version.

        Its result is empty for a missing Service or an invalid name.
        """

        def build_nodes(key: Key) -> Sequence[ZoneNode]:
            """The nodes of a Service or the version record; none if missing or invalidly named."""
            if key == VERSION:
                return (version_node(self._apex, SCHEMA_VERSION, self.view.ttl),)
            service = snapshot.get(snapshot.local, Service, key.name, key.namespace)
            namespace_domain = child_name(key.namespace, self._services)
            name = child_name(key.name, namespace_domain) if namespace_domain is not None else None
            if service is None or name is None:
                return ()
            slices = snapshot.by(snapshot.local, SLICES, f"{key.namespace}/{key.name}")
            return list(service_nodes(name, service, slices, self.view.ttl))

        return build_nodes


def _keys_of(change: ObjectChange) -> Iterator[Key]:
    """The key of the Service that each side of a change is or belongs to.

    Empty for other objects.
    """
    for side in (change.before, change.after):
        match side:
            case Service(metadata=meta):
                yield Key(SERVICE, meta.name, meta.namespace)
            case EndpointSlice(metadata=meta) if KUBE_SERVICE in meta.labels:
                yield Key(SERVICE, meta.labels[KUBE_SERVICE], meta.namespace)
            case _:
                continue
