"""The interface of controllers: from a key and a lister to the writes that are needed."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal, Protocol

from msgspec import Struct

from tinykube.resources import Object, Registry
from tinykube.storage import Change

Propagation = Literal["Background", "Foreground", "Orphan"]

CONFIG_MAPS = "configmaps"
CONTROLLER_REVISIONS = "controllerrevisions.apps"
DAEMON_SETS = "daemonsets.apps"
DEPLOYMENTS = "deployments.apps"
ENDPOINTS = "endpoints"
ENDPOINT_SLICES = "endpointslices.discovery.k8s.io"
EVENTS = "events"
JOBS = "jobs.batch"
NAMESPACES = "namespaces"
NODES = "nodes"
PODS = "pods"
REPLICA_SETS = "replicasets.apps"
SERVICE_ACCOUNTS = "serviceaccounts"
SERVICES = "services"
STATEFUL_SETS = "statefulsets.apps"
VOLUME_CLAIMS = "persistentvolumeclaims"


class Key(Struct, frozen=True, gc=False):
    """A workqueue key: the store (`pods`, `deployments.apps`), namespace and name of an object."""

    store: str
    namespace: str
    name: str


class Create(Struct, frozen=True):
    """Create an object, or POST to a subresource of the object that it names."""

    store: str
    object: Object
    subresource: str = ""


class Patch(Struct, frozen=True):
    """Merge-patch an object; fails with a conflict if the target has changed since it was read."""

    store: str
    target: Object
    body: Object
    subresource: str = ""


class Replace(Struct, frozen=True):
    """PUT a whole object; its resourceVersion is the precondition."""

    store: str
    object: Object
    subresource: str = ""


class Delete(Struct, frozen=True):
    """Delete exactly the object that was read (by uid); None keeps its own grace period."""

    store: str
    target: Object
    propagation: Propagation = "Background"
    grace_seconds: int | None = None


class RecordEvent(Struct, frozen=True):
    """Record an Event; a repeated one increments the count."""

    regarding: Object
    reason: str
    message: str
    component: str
    warning: bool = False


Write = Create | Patch | Replace | Delete | RecordEvent


class Result(Struct, frozen=True):
    """The result of a reconcile: writes in order, and when to requeue the key without a change."""

    writes: tuple[Write, ...] = ()
    requeue_after: timedelta | None = None


DONE = Result()
"""Nothing to write."""


class Lister(Protocol):
    """Read access to the current objects and their indexes; valid during one reconcile."""

    registry: Registry

    @property
    def now(self) -> datetime:
        """The current time of the API server's clock; it goes on during a reconcile."""

    def get(self, store: str, namespace: str, name: str) -> Object | None:
        """The stored object, not to be modified, or None."""
        ...

    def objects(self, store: str, namespace: str = "") -> Iterator[Object]:
        """The stored objects of one namespace, or of all when it is empty, sorted by key."""
        ...

    def dependents(self, uid: str) -> tuple[Key, ...]:
        """The keys of all objects that name the uid in an owner reference."""
        ...

    def controlled(self, store: str, owner: Object) -> list[Object]:
        """The objects of a store whose owner reference with `controller` has the owner's uid."""
        ...

    def orphans(self, store: str, namespace: str) -> list[Object]:
        """The objects of a store in a namespace that have no controller reference.

        Only pods, ReplicaSets and ControllerRevisions are indexed; other stores give none.
        """
        ...

    def pods_on(self, node: str) -> tuple[Key, ...]:
        """The keys of the pods assigned to a node, also of finished and terminating ones.

        With an empty name those of the pods that are not assigned.
        """
        ...

    def pods_with_labels(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """The pods of a namespace that have all the labels, by name; ValueError without labels."""
        ...

    def services_selecting(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """The Services of a namespace whose selectors match the labels.

        Services without selector are left out.
        """
        ...

    def is_pod_ip_used(self, address: str) -> bool:
        """Whether a pod that has not finished has the address."""
        ...

    def last_error(self, controller: str, key: Key) -> str:
        """The error text of a controller's last failed write for a key; empty if there is none.

        A conflict is not recorded. A reconcile whose writes succeed, or that has none, clears it.
        """
        ...


class Controller(Protocol):
    """A controller: maps changes to keys, and a key to the writes that are needed."""

    name: str
    watches: frozenset[str]
    """The stores whose changes it receives; empty means all stores."""

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:
        """The keys to enqueue for a change."""
        ...

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that bring a key to its desired state, and when to requeue it; no I/O."""
        ...
