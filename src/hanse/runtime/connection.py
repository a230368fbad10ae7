"""One connected cluster: what is watched in it, and how far what is known can be relied on."""

import asyncio
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from hanse.kube.errors import Forbidden, KubeError
from hanse.kube.store import Store, StoreChange
from hanse.kube.watch_events import Alive, Applied, Deleted, Event, Interrupted, Listed, NotServed
from hanse.model.facts import ClusterState, Phase, Role
from hanse.model.objects import ClusterId, Kind, Object
from hanse.model.snapshot import Index, Watch
from hanse.runtime.api import Api

_RIGHTS = {
    Role.LOCAL: "apply what `hanse manifests` prints once more",
    Role.BROKER: "let it `hanse join --broker` once more",
    Role.SITE: "apply what `hanse gslb rights` prints once more",
    Role.MEMBER: "let it `hanse join --federation` once more",
}
"""What gives an agent's account the rights of a role."""


class Scope(NamedTuple):
    """What one list-and-watch covers."""

    kind: type[Object]
    namespace: str
    labels: str
    name: str = ""

    @property
    def fields(self) -> str:
        """The field selector of a scope that covers one name."""
        return f"metadata.name={self.name}" if self.name else ""


class Informer:
    """One list-and-watch and its store."""

    def __init__(self, scope: Scope, indexes: Iterable[Index[Any]]) -> None:
        self.scope = scope
        self.store: Store[Any] = Store(tuple(indexes))
        self.error: KubeError | None = None
        self.open = True
        self.reopened = False
        """Whether it was begun anew, so that nobody will tell the end of an earlier outage."""
        self.served: bool | None = None
        self.unreadable = 0

    @property
    def settled(self) -> bool:
        """Whether it is known what there is, or that there is no such kind."""
        return self.served is False or self.store.synced

    def take(self, event: Event[Any]) -> Iterable[StoreChange[Any]]:
        """Follow what the stream tells."""
        match event:
            case Interrupted(error):
                self.error = error
            case NotServed():
                self.served, self.error, self.store.synced = False, None, False
            case Listed():
                self.served = True
                if self.reopened:  # else an outage ends only when the watch stands again
                    self.error, self.reopened = None, False
                self.unreadable = len(event.unreadable)
            case Applied() | Deleted() | Alive():
                self.error = None
        return self.store.take(event)


class Connection:
    """A cluster in its roles. Its state is told as a fact; nothing else decides on it."""

    def __init__(self, cluster: ClusterId, roles: frozenset[Role], api: Api, now: datetime) -> None:
        self.cluster = cluster
        self.roles = roles
        self.api = api
        self.informers: dict[Scope, Informer] = {}
        self.leaving = False
        self.identity = ""
        self.looking = asyncio.Lock()
        self.came_back = 0
        """How often a stream has come to see the cluster, or to see it again."""
        self.looked_after = 0
        """How many of these there had been when its identity was last looked at."""
        self.restored_at: dict[Scope, int] = {}
        """Lists of each stream when a restore was noticed: all must list again."""
        self.recovering = False
        self.heard_at = float("-inf")
        """The loop's time when it last answered anything."""
        self.doubted = asyncio.Event()
        """Set by whoever has to know at once whether it answers."""
        self.silent = ""
        """Why nothing that is asked is answered, however well its watches stand; empty: it is."""
        self.state = ClusterState(cluster, roles, Phase.CONNECTING, now)

    def next_state(self, now: datetime) -> ClusterState:
        """The state as it is now; `since` moves only with what it says."""
        phase, reason = self._phase()
        known = self.state
        since = known.since if known.phase == phase else now
        listed = all(s.settled for s in self.informers.values())
        return ClusterState(
            self.cluster,
            self.roles,
            phase,
            since,
            reason,
            listed,
            self.recovering,
            self.leaving,
        )

    @property
    def interrupted(self) -> bool:
        """Whether a stream is down; it asks again by itself."""
        return any(s.error is not None for s in self.informers.values())

    @property
    def refused(self) -> tuple[Kind, ...]:
        """The kinds that may not be read, where that is all that is wrong."""
        failing = [s for s in self.informers.values() if s.error is not None]
        if not all(isinstance(s.error, Forbidden) for s in failing):
            return ()
        return tuple(s.scope.kind.kind for s in failing)

    def mark_restored(self) -> None:
        """Nothing known of the cluster holds until every stream has listed once more."""
        self.restored_at = {scope: s.store.lists for scope, s in self.informers.items()}
        self.recovering = True

    @property
    def stores(self) -> Iterator[tuple[Kind, Store[Any]]]:
        for scope, stream in self.informers.items():
            yield scope.kind.kind, stream.store

    def _phase(self) -> tuple[Phase, str]:
        self.restored_at = {
            scope: lists
            for scope, lists in self.restored_at.items()
            if (stream := self.informers.get(scope)) is not None
            and stream.served is not False
            and stream.store.lists <= lists
        }
        if self.silent:
            return Phase.UNREACHABLE, self.silent
        if self.refused:
            return Phase.UNREACHABLE, _no_rights(self.refused, self.roles)
        failing = [s for s in self.informers.values() if s.error is not None]
        if failing:
            first = next(s for s in failing if not isinstance(s.error, Forbidden))
            return Phase.UNREACHABLE, f"{first.scope.kind.kind}: {first.error}"
        if self.restored_at:
            return Phase.RESTORED, "it was restored to an earlier state; everything is read again"
        if self.leaving and Role.LOCAL not in self.roles:
            return Phase.LEAVING, ""
        if all(s.settled for s in self.informers.values()):
            return Phase.SYNCED, ""
        return Phase.CONNECTING, ""


def _no_rights(kinds: tuple[Kind, ...], roles: frozenset[Role]) -> str:
    listed = ", ".join(str(kind) for kind in kinds[:3])
    more = f" and {len(kinds) - 3} more" if len(kinds) > 3 else ""
    remedy = next((how for role, how in _RIGHTS.items() if role in roles), "give it the rights")
    return f"the agent's account may not read {listed}{more}; {remedy}"


class Wanted(Struct, frozen=True):
    """The scopes to watch in a cluster, with the indexes of everyone who reads them."""

    scopes: dict[Scope, tuple[Index[Any], ...]]


def wanted_scopes(watches: Iterable[Watch], roles: frozenset[Role]) -> Wanted:
    """What to watch: all of a kind where someone wants all, else each selection by itself."""
    indexes: dict[Kind, dict[str, Index[Any]]] = {}
    scopes: dict[Kind, list[Scope]] = {}
    for watch in watches:
        if watch.role not in roles:
            continue
        kind = watch.kind.kind
        indexes.setdefault(kind, {}).update({i.name: i for i in watch.indexes})
        scope = Scope(watch.kind, watch.namespace, watch.labels, watch.name)
        if scope not in scopes.setdefault(kind, []):
            scopes[kind].append(scope)
    chosen: dict[Scope, tuple[Index[Any], ...]] = {}
    for kind, several in scopes.items():
        whole = [s for s in several if not (s.namespace or s.labels or s.name)]
        for scope in whole or several:
            chosen[scope] = tuple(indexes[kind].values())
    return Wanted(chosen)
