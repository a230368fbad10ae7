"""The clusters of a Federation that a command works on, found from one of them by contexts."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress

from msgspec import Struct

from hanse.cli.clusters import ClusterAccess, connect
from hanse.cli.errors import InputError
from hanse.cli.join.claims import is_supervisor, read_claims
from hanse.kube.client import Client
from hanse.kube.errors import BadCredentials, NotFound
from hanse.model.kinds.federation import (
    CLUSTER_ID,
    CLUSTER_SET,
    Federation,
    Member,
    MemberState,
)
from hanse.model.objects import ClusterId


class Participant(Struct, frozen=True):
    """A cluster that takes part, a client for it, and its claims."""

    access: ClusterAccess
    client: Client
    claims: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        """The name of its context."""
        return self.access.name

    @property
    def cluster(self) -> ClusterId:
        """Its cluster id; the name of its context while it claims none."""
        return self.claims.get(CLUSTER_ID, "") or self.name

    @property
    def supervises(self) -> bool:
        """Whether its ClusterClaim that marks supervisors is there, and is not `false`."""
        return is_supervisor(self.claims)


class Fleet(Struct, frozen=True):
    """The members of a Federation, and those of them that the kubeconfig reaches."""

    members: dict[ClusterId, Member]
    """All that any supervisor names; on a conflict the first one's entry."""
    reached: dict[ClusterId, Participant]
    supervising: frozenset[ClusterId]
    """Those that supervise, reached or not."""
    named_by: dict[ClusterId, frozenset[ClusterId]]
    """The members that the Federation of each reached cluster names."""

    @property
    def supervisors(self) -> list[Participant]:
        """The supervisors that are reached, sorted by cluster id; others are left out."""
        return [self.reached[c] for c in sorted(self.supervising) if c in self.reached]

    def require(self, clusters: Iterable[ClusterId], purpose: str) -> None:
        """Raise `InputError` for the first of these clusters that is not reached.

        Its text has `purpose`, and says which context would reach the cluster.
        """
        for cluster in sorted(set(clusters) - self.reached.keys()):
            server = self.members[cluster].server if cluster in self.members else "?"
            raise InputError(
                f"{cluster} {purpose}, and no context of the kubeconfig reaches it ({server}); "
                f"add a context named {cluster}, or one with that server"
            )


async def find_fleet(
    stack: AsyncExitStack,
    federation: str,
    named: Sequence[Participant],
    contexts: Sequence[ClusterAccess],
    *,
    dead: ClusterId = "",
) -> Fleet:
    """Read the Federation in the named clusters, then in the members found, and so on.

    A member is reached by a context with its server, or with its id as name, if that cluster claims
    the id. Members without such a context, and a `dead` one, which is not asked, are in `members`
    alone; an API server that does not answer raises. A named cluster without the Federation adds
    none.
    """
    members: dict[ClusterId, Member] = {}
    states: dict[ClusterId, MemberState] = {}
    named_by: dict[ClusterId, frozenset[ClusterId]] = {}
    reached = {one.cluster: one for one in named}
    servers = await _servers(contexts)
    unread, tried = list(named), {dead}
    while unread:
        for participant in unread:
            with suppress(NotFound):
                found = await participant.client.read(Federation, federation)
                named_by[participant.cluster] = frozenset(m.cluster_id for m in found.spec.members)
                for member in found.spec.members:
                    members.setdefault(member.cluster_id, member)
                states.update({s.cluster_id: s for s in found.status.members if s.supervisor})
        unread = []
        for cluster, member in members.items():
            if cluster in reached or cluster in tried:
                continue
            tried.add(cluster)
            for context in _candidates(member, contexts, servers):
                participant = await open_participant(stack, context)
                if participant.claims.get(CLUSTER_ID) == cluster:
                    reached[cluster] = participant
                    unread.append(participant)
                    break
    supervising = {
        c
        for c, one in reached.items()
        if one.supervises and one.claims.get(CLUSTER_SET, federation) == federation
    } | {c for c in states.keys() - reached.keys() if c in members}
    return Fleet(members, reached, frozenset(supervising), named_by)


async def open_participant(stack: AsyncExitStack, access: ClusterAccess) -> Participant:
    """Connect a cluster, until the stack ends, and read its claims; none if they are not served."""
    client = await stack.enter_async_context(connect(access))
    return Participant(access, client, await read_claims(client))


async def _servers(contexts: Sequence[ClusterAccess]) -> dict[str, str]:
    """The server URL of each context by name, from the kubeconfig, without a final slash.

    Contexts with unusable credentials are left out.
    """
    servers = {}
    for context in contexts:
        with suppress(BadCredentials):
            servers[context.name] = (await context.credentials.config()).endpoint.url.rstrip("/")
    return servers


def _candidates(
    member: Member, contexts: Sequence[ClusterAccess], servers: Mapping[str, str]
) -> list[ClusterAccess]:
    """The contexts with the member's server, then the one that has its id as name; may be empty."""
    same = [c for c in contexts if servers.get(c.name) == member.server.rstrip("/")]
    named = [c for c in contexts if c.name == member.cluster_id and c not in same]
    return [*same, *named]
