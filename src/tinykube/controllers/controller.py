"""What a controller is: a pure function from a key and what is observed to the writes it wants."""

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
    """One object to look at again: its store (`pods`, `deployments.apps`), namespace and name."""

    store: str
    namespace: str
    name: str


class Create(Struct, frozen=True):
    """A new object, or a POST to a subresource of the object it names."""

    store: str
    object: Object
    subresource: str = ""


class Patch(Struct, frozen=True):
    """A merge patch, refused when the target is no longer as it was observed."""

    store: str
    target: Object
    body: Object
    subresource: str = ""


class Replace(Struct, frozen=True):
    """A PUT of a whole object, with the resourceVersion it carries as its precondition."""

    store: str
    object: Object
    subresource: str = ""


class Delete(Struct, frozen=True):
    """A deletion of exactly the object observed; without a grace its own is kept."""

    store: str
    target: Object
    propagation: Propagation = "Background"
    grace_seconds: int | None = None


class RecordEvent(Struct, frozen=True):
    """An Event for people; repeated ones are counted, not written again."""

    about: Object
    reason: str
    message: str
    by: str
    warning: bool = False


Write = Create | Patch | Replace | Delete | RecordEvent


class Result(Struct, frozen=True):
    """Writes in the order in which they must happen, and when to look again without a change."""

    writes: tuple[Write, ...] = ()
    requeue_after: timedelta | None = None


DONE = Result()


class Lister(Protocol):
    """What a controller may read; the present state, valid during one reconcile."""

    registry: Registry

    @property
    def now(self) -> datetime: ...

    def get(self, store: str, namespace: str, name: str) -> Object | None: ...

    def objects(self, store: str, namespace: str = "") -> Iterator[Object]: ...

    def dependents(self, uid: str) -> tuple[Key, ...]:
        """Whatever names that uid among its owners."""
        ...

    def controlled(self, store: str, owner: Object) -> list[Object]:
        """The objects of one store whose controller is that owner."""
        ...

    def orphans(self, store: str, namespace: str) -> list[Object]:
        """Pods, ReplicaSets and ControllerRevisions that have no controller."""
        ...

    def pods_on(self, node: str) -> tuple[Key, ...]:
        """The pods assigned to a node."""
        ...

    def pods_with_labels(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """The pods of a namespace that have all of some labels, of which there is at least one."""
        ...

    def services_selecting(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """The Services of a namespace whose selectors match some labels."""
        ...

    def is_pod_ip_used(self, address: str) -> bool:
        """Whether a pod that has not ended has that address."""
        ...

    def last_error(self, controller: str, key: Key) -> str:
        """Why the last write for a key was refused; empty when none was."""
        ...


class Controller(Protocol):
    """One concern: which keys a change concerns, and what is to be written for a key."""

    name: str
    watches: frozenset[str]
    """The stores whose changes it is told of; empty means every store."""

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]: ...

    def reconcile(self, key: Key, lister: Lister) -> Result: ...
