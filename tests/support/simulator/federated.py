"""Federated Services: one Service in every member, with the pods of all of them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import msgspec

from hanse.features.federation.manifests import account_name
from hanse.kube.errors import NotFound
from hanse.kube.requests import delete
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.federation import SUPERVISOR, SYSTEM, ClusterClaim, Federation
from hanse.model.manifests import SERVICE_ACCOUNT
from hanse.model.objects import ClusterId, Meta, Wire
from tests.scenarios.federated import GLOBAL, OURS, FederatedScenario
from tests.support.federation import NAME as FEDERATION
from tests.support.federation import FederationScenario, create_or_patch, install_crds
from tests.support.simulator.fleet import Fleet, find, is_live
from tests.support.simulator.laws import Law
from tests.support.simulator.schedule import CLUSTERS, step

NAMES = ("shop-web", "shop-fish")
SUPERVISORS = ("lubeck", "hamburg")
FOLLOWED = 60.0
"""Seconds within which all members have followed a loss, once every supervisor sees it."""


class Federated:
    """Users let Services join federated ones, in any member."""

    name = "federated"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.membership = FederationScenario(fleet, SUPERVISORS)
        self._users = FederatedScenario(self.membership)
        self.edited: dict[ClusterId, float] = {}
        self._left: dict[ClusterId, float] = {}
        """When a Service of a cluster last left."""
        self._demoted: set[ClusterId] = set()
        """Supervisors that were demoted, or whose account a member deleted."""

    async def open(self) -> None:
        await self.membership.form()
        self._fleet.network.heal_all()
        for cluster in self._fleet.names:
            await install_crds(self._fleet, cluster, *OURS)

    async def heal(self) -> None:
        """Let those supervise again that do not, or have no valid token; what users do stands."""
        async with self._fleet.acting:
            for cluster in sorted(self._demoted):
                await self.promote(cluster)

    def laws(self) -> Sequence[Law]:
        return (EndpointsKept(self._fleet, self), AddressesKept(self._fleet, self))

    def touched(self, member: ClusterId, source: ClusterId) -> tuple[float, float]:
        """When our objects in a member were last changed, or it was restored, and a source left.

        A Service that left and joined again at once is another one.
        """
        edited = max(self.edited.get(member, 0), self._fleet.restored_at.get(member, 0))
        return edited, self._left.get(source, 0.0)

    def is_loss_unseen(self, source: ClusterId) -> bool:
        """Whether members may see only now that Services of a cluster left, or were lost.

        Where versions go forward in a restore, nothing tells a Service that the backup lacks from
        one that somebody deleted. Be it created again a moment later: what members have of the one
        before is not yet that of the new one.
        """
        fleet = self._fleet
        losses = [at[source] for at in (fleet.restored_forward_at, self._left) if source in at]
        works = (fleet.works_since(supervisor, source) for supervisor in SUPERVISORS)
        return bool(losses) and fleet.now - max(*losses, *works) < FOLLOWED

    @property
    def state(self) -> object:
        """What is another value once a Service, its endpoints, or what people did has changed."""
        fleet = self._fleet
        own = [fleet.state_of(cluster, Service, EndpointSlice) for cluster in fleet.names]
        acts = [*self.edited.items(), *fleet.restored_at.items()]
        return own, fleet.users.version, acts, [*map(self.is_loss_unseen, fleet.names)]

    @step(6, opening=True, cluster=CLUSTERS, name=NAMES)
    async def join(self, cluster: ClusterId, name: str) -> None:
        """A Service with a pod joins."""
        await self._users.join(cluster, _pod(name, 1), name=name, marks={GLOBAL: name})

    @step(4, cluster=CLUSTERS, name=NAMES, number=(0, 1, 2, 3))
    async def scale(self, cluster: ClusterId, name: str, number: int) -> None:
        if (cluster, Service, self._fleet.namespace, name) in self._fleet.users:
            pods = [_pod(name, n + 1) for n in range(number)]
            await self._users.pods(cluster, *pods, name=name)

    @step(2, cluster=CLUSTERS, name=NAMES)
    async def leave(self, cluster: ClusterId, name: str) -> None:
        """A Service that joined is deleted with its pods."""
        self._left[cluster] = self._fleet.now
        space = self._fleet.namespace
        await self._fleet.admin(cluster).delete(Service, name, space)
        await self._fleet.admin(cluster).delete(EndpointSlice, f"{name}-pods", space)

    @step(1, cluster=CLUSTERS, name=NAMES)
    async def own_service(self, cluster: ClusterId, name: str) -> None:
        """A person makes a Service by the name that a federated one would have."""
        meta = Meta(name=name, namespace=SYSTEM)
        spec = ServiceSpec(ports=(ServicePort(port=7, name="theirs"),))
        await self._fleet.admin(cluster).create(Service(metadata=meta, spec=spec))

    @step(1, cluster=CLUSTERS)
    async def delete_slices(self, cluster: ClusterId) -> None:
        """Somebody deletes slices that are ours."""
        self.edited[cluster] = self._fleet.now
        for found in await self._fleet.objects(cluster, EndpointSlice, SYSTEM):
            with suppress(NotFound):
                name = found["metadata"]["name"]
                await self._fleet.hand(cluster).delete(EndpointSlice, name, SYSTEM)

    # -- supervisors

    @step(2, cluster=SUPERVISORS, how=("claim", "federation", "members"))
    async def demote(self, cluster: ClusterId, how: str) -> None:
        """A supervisor is to supervise no longer; the last one, too."""
        self._demoted.add(cluster)
        admin = self._fleet.admin(cluster)
        match how:
            case "claim":
                await admin.delete(ClusterClaim, SUPERVISOR, "")
            case "federation":
                await admin.delete(Federation, FEDERATION, "")
            case _:
                await self._name_members(cluster)

    @step(2, cluster=SUPERVISORS)
    async def promote(self, cluster: ClusterId) -> None:
        """A cluster is to supervise all members, with a new token for each."""
        admin = self._fleet.admin(cluster)
        for member in self._fleet.names:
            await create_or_patch(admin, await self.membership.secret_for(member, cluster))
        claim = ClusterClaim(metadata=Meta(name=SUPERVISOR), value="true")
        await create_or_patch(admin, claim)
        try:
            await self._name_members(cluster, *CLUSTERS)
        except NotFound:
            await admin.create(self.membership.federation(*CLUSTERS))

    @step(1, member=CLUSTERS, supervisor=SUPERVISORS)
    async def revoke(self, member: ClusterId, supervisor: ClusterId) -> None:
        """A member deletes the account of a supervisor."""
        self._demoted.add(supervisor)
        account = delete(SERVICE_ACCOUNT, account_name(supervisor), SYSTEM)
        await self._fleet.hand(member).send(account)

    async def _name_members(self, supervisor: ClusterId, *members: ClusterId) -> None:
        wanted = [msgspec.to_builtins(self.membership.member(cluster)) for cluster in members]
        change = {"spec": {"members": wanted}}
        await self._fleet.admin(supervisor).patch(Federation, FEDERATION, "", change)


class AddressesKept(Law):
    """Federated Services are not replaced."""

    name = "federated-addresses"
    sentence = (
        "The ClusterIP of a federated Service never changes in a member while a Service that "
        "joined it stays as it is, whoever supervises."
    )

    def __init__(self, fleet: Fleet, federated: Federated) -> None:
        super().__init__(fleet)
        self._federated = federated
        self._known: dict[tuple[ClusterId, ClusterId, str], tuple[str, object, object]] = {}
        """The uid of a Service in a member, while a source's addresses and the member are so."""

    def basis(self) -> object:
        return self._federated.state

    async def observe(self) -> AsyncIterator[str]:
        endpoints = EndpointsKept(self.fleet, self._federated)
        for name in NAMES:
            joined = {c: await endpoints.joined(c, name) for c in self.fleet.names}
            for member in self.fleet.names:
                services = await self.fleet.objects(member, Service, SYSTEM)
                service = next((s for s in services if s["metadata"]["name"] == name), None)
                found = await endpoints.found(member, name)
                for source, addresses in joined.items():
                    key, touched = (member, source, name), self._federated.touched(member, source)
                    known = self._known.pop(key, None)
                    if found is None or not addresses:
                        continue
                    uid = str(service["metadata"]["uid"]) if service is not None else ""
                    if known is not None and known[1:] == (addresses, touched) and known[0] != uid:
                        yield f"{name} in {member}, which {source} joined, is another Service"
                    noted = (uid, addresses, touched)
                    is_its_own = known == noted or not self._federated.is_loss_unseen(source)
                    if uid and addresses <= found and is_its_own:
                        self._known[key] = noted


class EndpointsKept(Law):
    """Members have the endpoints of all members."""

    name = "federated-endpoints"
    sentence = (
        "Every member has the endpoints of all that joined a federated Service; what is there "
        "stays as long as its user leaves it, whatever fails; what is deleted stays deleted. When "
        "all is well again, all of them are ready."
    )

    def __init__(self, fleet: Fleet, federated: Federated) -> None:
        super().__init__(fleet)
        self._federated = federated
        self._complete: dict[tuple[ClusterId, ClusterId, str], object] = {}

    def basis(self) -> object:
        return self._federated.state

    async def observe(self) -> AsyncIterator[str]:
        for name in NAMES:
            wanted = {c: await self.joined(c, name) for c in self.fleet.names}
            for member in self.fleet.names:
                found = await self.found(member, name)
                if found is None:
                    continue
                for source, addresses in wanted.items():
                    key, touched = (member, source, name), self._federated.touched(member, source)
                    missing, noted = addresses - found, (addresses, touched)
                    is_known = self._complete.get(key) == noted
                    if missing and is_known:
                        yield f"{member} lost {sorted(missing)} of {name} in {source}"
                    if not missing and (is_known or not self._federated.is_loss_unseen(source)):
                        self._complete[key] = noted
                    elif not is_known:
                        self._complete.pop(key, None)

    async def at_rest(self) -> AsyncIterator[str]:
        for name in NAMES:
            joined = [await self.joined(c, name) for c in self.fleet.names]
            wanted = frozenset[str]().union(*joined)
            for member in self.fleet.names:
                found = await self.found(member, name, ready=True)
                if found is not None and found != wanted:
                    yield f"{member} has {sorted(found)} of {name}, not {sorted(wanted)}"

    async def joined(self, cluster: ClusterId, name: str) -> frozenset[str]:
        """The pods of a Service that joins, where it exists."""
        space = self.fleet.namespace
        service = find(await self.fleet.objects(cluster, Service, space), name)
        if service is None:
            return frozenset()
        return _addresses(await self.fleet.objects(cluster, EndpointSlice, space), name)

    async def found(
        self, cluster: ClusterId, name: str, *, ready: bool = False
    ) -> frozenset[str] | None:
        """The endpoints of a federated Service in a member, all or only those that are ready.

        None where a person has its name.
        """
        if (cluster, Service, SYSTEM, name) in self.fleet.users:
            return None
        slices = await self.fleet.objects(cluster, EndpointSlice, SYSTEM)
        return _addresses(slices, name, ready=ready)


def _addresses(slices: Sequence[Wire], name: str, *, ready: bool = False) -> frozenset[str]:
    return frozenset(
        address
        for one in slices
        if is_live(one) and one["metadata"].get("labels", {}).get(KUBE_SERVICE) == name
        for endpoint in one.get("endpoints") or ()
        if not ready or endpoint["conditions"]["ready"]
        for address in endpoint["addresses"]
    )


def _pod(name: str, number: int) -> int:
    return 100 * NAMES.index(name) + number
