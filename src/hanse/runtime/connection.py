"""One connected cluster: its informers, and how far their stores can be relied on."""

import asyncio
import logging
from collections.abc import Callable, Container, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from msgspec import Struct

from hanse.kube.errors import BadCredentials, Forbidden, KubeError, Unreachable, Untrusted
from hanse.kube.store import Store, StoreChange
from hanse.kube.watch_events import (
    Applied,
    Deleted,
    Interrupted,
    Listed,
    NotServed,
    Progress,
    WatchEvent,
)
from hanse.model.facts import ClusterState, Phase, Role
from hanse.model.objects import ClusterId, Kind, Object
from hanse.model.snapshot import Index, Watch
from hanse.runtime.api import Api

log = logging.getLogger(__name__)

RECOVERY = timedelta(seconds=30)
"""How long after a restore nothing is deleted or written because the cluster lacks something."""

SERVER_TIMEOUT = 60.0
"""Seconds after which an API server gives up a request, unless it is configured otherwise."""

NO_ANSWER = "it takes requests and answers none of them"
"""Why a cluster is unresponsive whose connections stand."""

_REMEDIES = {
    Role.LOCAL: "apply what `hanse manifests` prints once more",
    Role.BROKER: "let it `hanse join --broker` once more",
    Role.SITE: "apply what `hanse gslb rights` prints once more",
    Role.MEMBER: "let it `hanse join --federation` once more",
    Role.OUTSIDE: "correct its user name and password",
}
"""What gives an agent's account the rights of a role."""


class Scope(NamedTuple):
    """What one informer lists and watches."""

    kind: type[Object]
    namespace: str
    labels: str
    name: str = ""
    optional: bool = False
    """Whether missing rights to read it are no error: it then counts as not served."""

    @property
    def fields(self) -> str:
        """The field selector of a scope that covers one name; empty for others."""
        return f"metadata.name={self.name}" if self.name else ""

    def selects(self, obj: Object) -> bool:
        """Whether an object of the kind matches the scope's namespace, name and label selector.

        Empty ones match all; of labels every term must match. Terms but `key=value`, `key==value`
        and `key` never do.
        """
        if self.namespace and self.namespace != obj.metadata.namespace:
            return False
        if self.name and self.name != obj.metadata.name:
            return False
        terms = (term.strip() for term in self.labels.split(","))
        return all(_term_matches(term, obj.metadata.labels) for term in terms if term)


def _term_matches(term: str, labels: dict[str, str]) -> bool:
    """Whether labels match one term of a selector: `key=value`, `key==value` or `key`.

    False for any other term, such as `key!=value`.
    """
    name, equals, value = term.partition("=")
    if equals and not name.endswith("!"):
        return labels.get(name.strip()) == value.lstrip("=").strip()
    return name.strip() in labels


class Informer:
    """One list-and-watch and its store."""

    def __init__(self, scope: Scope, indexes: Iterable[Index[Any]]) -> None:
        """An informer with an empty store, of which nothing is listed yet; it starts no task."""
        self.scope = scope
        self.store: Store[Any] = Store(tuple(indexes))
        self.error: KubeError | None = None
        self.open = True
        self.restarted = False
        """Whether it was restarted: then no `Progress` ends an outage that began before."""
        self.served: bool | None = None
        self.unreadable = 0

    @property
    def synced(self) -> bool:
        """Whether everything was listed once, or the kind is known not to be served.

        An outage after that does not count.
        """
        return self.served is False or self.store.synced

    def take(self, event: WatchEvent[Any]) -> Iterable[StoreChange[Any]]:
        """Apply an event of the stream to the store; returns what changed there.

        Sets or clears the error and `served`; a list clears the error only after a restart, else
        the next watch event does. A kind that is not served, and an optional one that is forbidden,
        counts as not served, and is no longer synced in the store.
        """
        match event:
            case Interrupted(Forbidden()) if self.scope.optional:
                self.served, self.error, self.store.synced = False, None, False
            case Interrupted(error):
                self.error = error
            case NotServed():
                self.served, self.error, self.store.synced = False, None, False
            case Listed():
                self.served = True
                if self.restarted:  # else an outage ends only when the watch is up again
                    self.error, self.restarted = None, False
                self.unreadable = len(event.unreadable)
            case Applied() | Deleted() | Progress():
                self.error = None
        return self.store.apply_event(event)


class Connection:
    """A cluster in its roles; its state is published as a `ClusterState` fact."""

    def __init__(self, cluster: ClusterId, roles: frozenset[Role], api: Api, now: datetime) -> None:
        """A connection in phase Connecting, without informers; nothing is sent yet.

        `now` is the time since when it is in that phase.
        """
        self.cluster, self.roles, self.api = cluster, roles, api
        self.informers: dict[Scope, Informer] = {}
        self.leaving = False
        self.claims_under_way = 0
        """How many writes may not be carried out yet that make an object ours."""
        self.identity = ""
        self.identity_lock = asyncio.Lock()
        self.syncs = 0
        """How often an informer has synced, for the first time or after an outage."""
        self.identified_syncs = 0
        """How many of these syncs there had been when the identity was last read."""
        self.relists_pending: dict[Scope, int] = {}
        """After a restore: the informers that must list again, with their lists until then."""
        self.outdated: dict[Scope, int] = {}
        """After we began to lead: the informers that must list again, with their lists until then.
        Watches may be late, and have not delivered yet what the former leader has seen."""
        self.recovering = False
        self._recovery_timer: asyncio.TimerHandle | None = None
        """Ends the recovery from the last restore; None while the cluster is not synced."""
        self.answered_at = float("-inf")
        """The loop's time when the cluster last answered anything."""
        self.suspected = asyncio.Event()
        """Set to have the cluster probed at once."""
        self.unresponsive = ""
        """Why the cluster answers no request although its watches are up; empty: it does."""
        self.slow = False
        """Whether the last probe was answered late, or others were answered meanwhile."""
        self.rejection = ""
        """What the cluster answered to our credentials, if it rejects them."""
        self.state = ClusterState(cluster, roles, Phase.CONNECTING, now)

    def current_state(self, now: datetime) -> ClusterState:
        """The state by informers and probes as they are now; `since` stays while the phase does.

        It is never later than `now`: a clock may go back. `state` is not set by this, but relists
        that are done are dropped.
        """
        self._drop_done_relists()
        listed = all(informer.synced for informer in self.informers.values())
        phase, reason = self._phase(listed)
        since = min(self.state.since, now) if self.state.phase == phase else now
        return ClusterState(
            self.cluster,
            self.roles,
            phase,
            since,
            reason,
            listed,
            self.recovering,
            self.leaving,
            phase is Phase.UNREACHABLE and self.silent,
            bool(self._rejected),
            tuple(kind.plural for kind in self.forbidden) if phase is Phase.UNREACHABLE else (),
            phase is Phase.UNREACHABLE and self._untrusted,
            self.slow or self.unresponsive == NO_ANSWER,
        )

    def log_phase(self) -> None:
        """Log the phase at level info, or warning for missing rights: people have to fix them."""
        state = self.state
        fields = {"cluster": state.cluster, "phase": state.phase.value, "why": state.reason}
        level = logging.WARNING if self.forbidden else logging.INFO
        log.log(level, "cluster seen", extra=fields)

    @property
    def _rejected(self) -> str:
        """The answer that rejects our credentials; empty if they are accepted.

        That of the informers that are down, if each of them got it; else that of the last probe.
        """
        failing = [i.error for i in self.informers.values() if i.error is not None]
        if failing and all(isinstance(error, BadCredentials) for error in failing):
            return str(failing[0])
        return self.rejection

    @property
    def _untrusted(self) -> bool:
        """Whether an informer is down because the certificate of the cluster is not trusted."""
        return any(isinstance(i.error, Untrusted) for i in self.informers.values())

    @property
    def interrupted(self) -> bool:
        """Whether an informer has an error; it then retries by itself."""
        return any(informer.error is not None for informer in self.informers.values())

    @property
    def silent(self) -> bool:
        """Whether probes fail, or informers are down and none of those has got an answer.

        An error of the server is an answer.
        """
        errors = [i.error for i in self.informers.values() if i.error is not None]
        unanswered = bool(errors) and all(isinstance(e, Unreachable) for e in errors)
        return bool(self.unresponsive) or unanswered

    @property
    def forbidden(self) -> tuple[Kind, ...]:
        """The kinds of the informers that are down, if each of them is Forbidden; else ().

        Also () if none is down.
        """
        failing = [i for i in self.informers.values() if i.error is not None]
        if not all(isinstance(i.error, Forbidden) for i in failing):
            return ()
        return tuple(i.scope.kind.kind for i in failing)

    def expect_late_claim(self) -> None:
        """Count a write that got no answer as under way until its server has given it up.

        That is after SERVER_TIMEOUT. It may have waited here before it was sent, or on its way, so
        that the server got it as late as now.
        """

        def end() -> None:
            """Count one write less as under way."""
            self.claims_under_way -= 1

        self.claims_under_way += 1
        asyncio.get_running_loop().call_later(SERVER_TIMEOUT, end)

    def mark_restored(self) -> None:
        """Mark the cluster as recovering, and every informer as one that must list once more.

        No informer is restarted here.
        """
        self.relists_pending = {scope: i.store.lists for scope, i in self.informers.items()}
        self.recovering = True
        self._stop_timer()  # of an earlier restore

    def mark_outdated(self, kinds: Container[type[Object]]) -> None:
        """Mark the informers of these kinds that have listed as those that must list once more.

        They are not restarted here; until they have listed the phase is Connecting.
        """
        self.outdated |= {
            scope: informer.store.lists
            for scope, informer in self.informers.items()
            if scope.kind in kinds and informer.store.synced
        }

    def time_recovery(self, end: Callable[[Self], None]) -> None:
        """Start the timer that calls `end` after RECOVERY, if the cluster is recovering and synced.

        That is in the phases Synced and Leaving; in other phases the timer is stopped. A timer that
        runs goes on.
        """
        if self.state.phase not in (Phase.SYNCED, Phase.LEAVING):
            self._stop_timer()
        elif self.recovering and self._recovery_timer is None:
            loop = asyncio.get_running_loop()
            self._recovery_timer = loop.call_later(RECOVERY.total_seconds(), end, self)

    def _stop_timer(self) -> None:
        """Cancel the timer of the recovery, if there is one."""
        if self._recovery_timer is not None:
            self._recovery_timer.cancel()
            self._recovery_timer = None

    def _drop_done_relists(self) -> None:
        """Drop the pending relists of informers that listed again, are gone or not served.

        Both those after a restore and those since we lead.
        """
        self.relists_pending = dict(filter(self._is_pending, self.relists_pending.items()))
        self.outdated = dict(filter(self._is_pending, self.outdated.items()))

    def _is_pending(self, relist: tuple[Scope, int]) -> bool:
        """Whether the informer of a scope is there, served, and has listed no more often."""
        scope, lists = relist
        informer = self.informers.get(scope)
        return (
            informer is not None and informer.served is not False and informer.store.lists <= lists
        )

    def _phase(self, listed: bool) -> tuple[Phase, str]:
        """The phase and its reason, empty for some: the first that applies, in this order.

        UNREACHABLE if probes fail or any informer has an error, RESTORED until all informers have
        listed again, LEAVING unless it is the local cluster, CONNECTING until they have listed
        again since we lead, then SYNCED if `listed`, else CONNECTING.
        """
        if self.unresponsive:
            return Phase.UNREACHABLE, self.unresponsive
        if self._rejected:
            return Phase.UNREACHABLE, _rejected_credentials(self._rejected, self.roles)
        if self.forbidden:
            return Phase.UNREACHABLE, _missing_rights(self.forbidden, self.roles)
        failing = [i for i in self.informers.values() if i.error is not None]
        if failing:
            first = next(i for i in failing if not isinstance(i.error, Forbidden))
            asked = "" if isinstance(first.error, Unreachable) else f"{first.scope.kind.kind}: "
            return Phase.UNREACHABLE, f"{asked}{first.error}"
        if self.relists_pending:
            return Phase.RESTORED, "it was restored to an earlier state; everything is read again"
        if self.leaving and Role.LOCAL not in self.roles:
            return Phase.LEAVING, ""
        if self.outdated:
            return Phase.CONNECTING, "everything is read again, since this agent leads from now on"
        return (Phase.SYNCED if listed else Phase.CONNECTING), ""


def _rejected_credentials(answer: str, roles: frozenset[Role]) -> str:
    """The message for credentials that are rejected, with a remedy by the cluster's roles."""
    return f"it rejects the agent's credentials (401: {answer}); {_remedy(roles)}"


def _remedy(roles: frozenset[Role]) -> str:
    """What a person does to give the agent its rights, by the first role that has such a text.

    It is that of `_REMEDIES`, in its order; a general text for other roles.
    """
    return next((how for role, how in _REMEDIES.items() if role in roles), "give it the rights")


def _missing_rights(kinds: tuple[Kind, ...], roles: frozenset[Role]) -> str:
    """The message that names up to three unreadable kinds, how many more, and a remedy.

    The remedy depends on the cluster's roles.
    """
    listed = ", ".join(str(kind) for kind in kinds[:3])
    more = f" and {len(kinds) - 3} more" if len(kinds) > 3 else ""
    return f"the agent's account may not read {listed}{more}; {_remedy(roles)}"


class WatchedScopes(Struct, frozen=True):
    """The scopes to watch in a cluster, with the indexes of every feature that reads them."""

    scopes: dict[Scope, tuple[Index[Any], ...]]


def wanted_scopes(watches: Iterable[Watch], roles: frozenset[Role]) -> WatchedScopes:
    """The scopes of the watches whose role is among these, each with all indexes of its kind.

    Equal scopes are one; a scope that covers a whole kind replaces the others of that kind.
    """
    indexes: dict[Kind, dict[str, Index[Any]]] = {}
    scopes: dict[Kind, list[Scope]] = {}
    for watch in watches:
        if watch.role not in roles:
            continue
        kind = watch.kind.kind
        indexes.setdefault(kind, {}).update({i.name: i for i in watch.indexes})
        scope = Scope(watch.kind, watch.namespace, watch.labels, watch.name, watch.optional)
        if scope not in scopes.setdefault(kind, []):
            scopes[kind].append(scope)
    chosen: dict[Scope, tuple[Index[Any], ...]] = {}
    for kind, several in scopes.items():
        whole = [s for s in several if not (s.namespace or s.labels or s.name)]
        for scope in whole or several:
            chosen[scope] = tuple(indexes[kind].values())
    return WatchedScopes(chosen)
