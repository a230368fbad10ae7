"""Members of the broker: clusters leave, are given up, replaced, and join again."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from hanse.cli.member_records import MemberPlace, delete_objects, list_published, set_phase
from hanse.features.services.manifests import FIRST_LEASE_SECONDS
from hanse.features.services.names import SOURCE_CLUSTER
from hanse.kube.client import Client
from hanse.kube.errors import AlreadyExists, NotFound
from hanse.kube.lease import new_lease
from hanse.kube.optional_reads import read_or_none
from hanse.model.kinds.coordination import Lease, LeaseSpec
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import ClusterMember, ClusterMemberSpec, ClusterSet
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.objects import ClusterId, Meta
from hanse.model.ownership import OWNER
from tests.support.builders import namespace
from tests.support.simulator.fleet import Fleet, server_party
from tests.support.simulator.laws import Law
from tests.support.simulator.schedule import BROKER, CLUSTERS, step

PATIENCE = 60
"""Seconds that an administrator waits for an agent to withdraw, before the cluster is given up."""


class Members:
    """An administrator lets clusters leave the broker and join it."""

    name = "members"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def open(self) -> None:
        """Every cluster has a record, as `hanse join` makes it."""
        for cluster in self._fleet.names:
            await self._create_record(cluster)

    async def heal(self) -> None:
        """What the administrator decided is said once more: a restored broker may not know it."""
        for cluster in self._fleet.names:
            if cluster in self._fleet.left:
                await self.give_up(cluster)
                await self._fleet.restart_agent(cluster)
            elif (await self._record(cluster)).has_left:
                await self._join(cluster)

    def laws(self) -> Sequence[Law]:
        return (NothingLeft(self._fleet),)

    @step(3, cluster=CLUSTERS)
    async def leave(self, cluster: ClusterId) -> None:
        """A cluster leaves; one whose agent does not withdraw in time is given up."""
        record = await self._record(cluster)
        if cluster in self._fleet.left or record.has_left:
            return
        self._note(cluster, left=True)
        await set_phase(self._broker, record, "Leaving")
        for _ in range(PATIENCE):
            await asyncio.sleep(1)
            if (await self._record(cluster)).has_left:
                break
        await self.give_up(cluster)

    @step(2, cluster=CLUSTERS)
    async def give_up(self, cluster: ClusterId) -> None:
        """An administrator makes a cluster leave without asking it."""
        self._note(cluster, left=True)
        record = await self._record(cluster)
        if not record.has_left:
            await set_phase(self._broker, record, "Left", abandoned=True)
        await self._delete_published(cluster)

    @step(4, cluster=CLUSTERS)
    async def join(self, cluster: ClusterId) -> None:
        """A cluster that has left joins again; its agent starts anew."""
        if cluster in self._fleet.left:
            await self._join(cluster)

    @step(1, cluster=CLUSTERS)
    async def replace(self, cluster: ClusterId) -> None:
        """What a cluster published is dropped, and it takes its id in a new epoch."""
        record = await self._record(cluster)
        self._note(cluster, left=False)
        if not record.has_left:
            await set_phase(self._broker, record, "Replaced")
        await self._delete_published(cluster)
        await self._join(cluster)

    @step(1, searched=True, seconds=(0, 5, 30, 60))
    async def lose_namespace(self, seconds: int) -> None:
        """Somebody deletes the broker's namespace; later all is made again that `init` makes."""
        fleet = self._fleet
        await self._broker.delete(Namespace, BROKER_NAMESPACE, "")
        fleet.namespace_lost_at = fleet.now
        for _ in range(PATIENCE):
            await asyncio.sleep(1)
            if await read_or_none(self._broker, Namespace, BROKER_NAMESPACE) is None:
                break
        await asyncio.sleep(seconds)
        await self._broker.create(namespace(BROKER_NAMESPACE))
        for cluster in fleet.names:
            await fleet.allow_on_broker(cluster)
            await self._create_record(cluster)
            if cluster in fleet.left:
                await self.give_up(cluster)
        fleet.namespace_back_at = fleet.now
        fleet.disturb(server_party(BROKER))

    @step(1, searched=True, seconds=(0, 5, 30, 60))
    async def lose_clusterset(self, seconds: int) -> None:
        """Somebody deletes the ClusterSet, and creates it again later."""
        lost = await self._broker.read(ClusterSet, self._fleet.namespace)
        await self._broker.delete(ClusterSet, lost.name, "")
        await asyncio.sleep(seconds)
        await self._broker.create(ClusterSet(metadata=Meta(name=lost.name), spec=lost.spec))

    async def _join(self, cluster: ClusterId) -> None:
        """A Lease without a holder, then the next epoch of the record, as `hanse join` writes."""
        record = await self._record(cluster)
        self._note(cluster, left=False)
        spec = LeaseSpec(lease_duration_seconds=FIRST_LEASE_SECONDS)
        with suppress(AlreadyExists):
            await self._broker.create(new_lease(BROKER_NAMESPACE, cluster, spec))
        await set_phase(self._broker, record, "Joining", epoch=record.status.epoch + 1)
        await self._fleet.restart_agent(cluster)

    async def _delete_published(self, cluster: ClusterId) -> None:
        """Delete what a broker has of a cluster but its record, as an administrator does."""
        place = MemberPlace(BROKER, BROKER_NAMESPACE, cluster)
        await delete_objects(self._broker, await list_published(self._broker, place))
        with suppress(NotFound):
            await self._broker.delete(Lease, cluster, BROKER_NAMESPACE)
        await delete_objects(self._broker, await list_published(self._broker, place))

    async def _record(self, cluster: ClusterId) -> ClusterMember:
        try:
            return await self._broker.read(ClusterMember, cluster, BROKER_NAMESPACE)
        except NotFound:  # of a backup before it joined
            await self._create_record(cluster)
            return await self._broker.read(ClusterMember, cluster, BROKER_NAMESPACE)

    async def _create_record(self, cluster: ClusterId) -> None:
        own = await self._fleet.hand(cluster).read(Namespace, "kube-system")
        spec = ClusterMemberSpec(cluster_id=cluster, uid=own.metadata.uid)
        meta = Meta(name=cluster, namespace=BROKER_NAMESPACE)
        with suppress(AlreadyExists):
            await self._broker.create(ClusterMember(metadata=meta, spec=spec))

    @property
    def _broker(self) -> Client:
        return self._fleet.hand(BROKER)

    def _note(self, cluster: ClusterId, *, left: bool) -> None:
        """Note what the administrator decided, and when."""
        (self._fleet.left.add if left else self._fleet.left.discard)(cluster)
        self._fleet.membership_changed[cluster] = self._fleet.now


class NothingLeft(Law):
    """A cluster that has left has nothing of the broker's, and the broker nothing of it."""

    name = "nothing-left"
    sentence = "At rest nothing of a cluster that has left stands on the broker, nor of it at home."

    async def at_rest(self) -> AsyncIterator[str]:
        for cluster in sorted(self.fleet.left):
            slices = await self.fleet.objects(BROKER, EndpointSlice, BROKER_NAMESPACE)
            published = [
                s["metadata"]["name"]
                for s in slices
                if s["metadata"].get("labels", {}).get(SOURCE_CLUSTER) == cluster
            ]
            if published:
                yield f"the broker has {published} of {cluster}, which has left"
            imports = await self.fleet.objects(cluster, ServiceImport, self.fleet.namespace)
            ours = [
                i["metadata"]["name"] for i in imports if OWNER in i["metadata"].get("labels", {})
            ]
            if ours:
                yield f"{cluster} has left and imports {ours}"
