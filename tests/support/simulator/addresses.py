"""The laws of clusterset IPs: they stay, and behind them are pods."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

from hanse.features.services.names import SERVICE_NAME, SOURCE_CLUSTER
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.objects import ClusterId
from tests.support.simulator.exports import NAMES, Exported, Exports
from tests.support.simulator.fleet import Fleet, find, is_live
from tests.support.simulator.laws import Law


class UsersActions(Protocol):
    """What people did to imports."""

    def is_owned(self, cluster: ClusterId, name: str) -> bool:
        """Whether a person's own import has the name in a cluster."""

    def touched(self, cluster: ClusterId) -> float:
        """When somebody last changed imports in a cluster, or it was restored, left or joined."""

    def deleted(self, cluster: ClusterId, name: str) -> float:
        """When a person last deleted the Service of an export; 0 if nobody did."""

    @property
    def state(self) -> object:
        """What is another value once people have done anything to imports."""


class AddressesKept(Law):
    """The address of an import stays.

    It ends with the membership of the last exporter: a cluster that is built anew under an id has
    none of the exports of the one before, and what it exports itself is imported anew. Nor does an
    export keep it that nobody could know of yet: its agent did not run since it was made; or whose
    Service its user deleted, if only for a moment.
    """

    name = "addresses-kept"
    sentence = (
        "The clusterset IP of a service never changes in a cluster while an export stands that it "
        "has imported, with its Service, of a cluster that does not leave and is not replaced."
    )

    def __init__(self, fleet: Fleet, services: UsersActions) -> None:
        super().__init__(fleet)
        self._services = services
        self._exports = Exports(fleet)
        self._imported: set[tuple[ClusterId, ClusterId, str, str]] = set()
        """Who has imported which export, by exporter, name and creation."""
        self._held: dict[tuple[ClusterId, str], tuple[object, frozenset[str]]] = {}
        """The address of a name in a cluster, and when imports there were touched and the exporter
        that has been a member for longest joined."""

    def basis(self) -> object:
        fleet = self.fleet
        imports = [fleet.state_of(cluster, ServiceImport) for cluster in fleet.names]
        may_be = self._exports.may_be_of_before
        former = [may_be(asker, exporter) for asker in fleet.names for exporter in fleet.names]
        return self._exports.state, self._services.state, fleet.answers_state, imports, former

    async def observe(self) -> AsyncIterator[str]:
        profile = await self._exports.profile()
        for name in NAMES:
            exports = await self._exports.possible(name)
            headless = {exported.headless for exported in exports.values()}
            for asker in self.fleet.names:
                key = (asker, name)
                await self._note_imports(asker, name, exports)
                imported = [
                    c
                    for c, exported in exports.items()
                    if (asker, c, name, exported.since) in self._imported
                ]
                if profile != "kep-1645" or headless != {False} or not imported:
                    self._held.pop(key, None)
                    continue
                full = f"{name}.{self.fleet.namespace}.svc.clusterset.local"
                records = self.fleet.ask(asker, full).records
                if not await self._has_address(asker, name):
                    continue  # the asker has not seen the new profile: these are endpoints
                joined = min(self.fleet.membership_changed.get(c, 0.0) for c in exports)
                deleted = min(self._services.deleted(c, name) for c in imported)
                since, held = (self._services.touched(asker), joined, deleted), self._held.get(key)
                if records and held is not None and held[0] == since and held[1] != records:
                    yield f"{full} in {asker} was {sorted(held[1])} and is {sorted(records)}"
                if records and not all(self._exports.may_be_of_before(asker, c) for c in exports):
                    self._held[key] = (since, records)

    async def _note_imports(
        self, asker: ClusterId, name: str, exports: dict[ClusterId, Exported]
    ) -> None:
        """Record the exports of which a cluster has endpoints, or has none but knows that."""
        for found in await self.fleet.objects(asker, EndpointSlice, self.fleet.namespace):
            labels = found["metadata"].get("labels", {})
            source = labels.get(SOURCE_CLUSTER, "")
            if labels.get(SERVICE_NAME) == name and source in exports:
                self._imported.add((asker, source, name, exports[source].since))

    async def _has_address(self, cluster: ClusterId, name: str) -> bool:
        """Whether the import in a cluster has a clusterset IP."""
        found = find(await self.fleet.objects(cluster, ServiceImport, self.fleet.namespace), name)
        return found is not None and bool(found["spec"].get("ips"))


class PodsBehindAddresses(Law):
    """A proxy can send packets to what is behind a clusterset IP."""

    name = "pods-behind-addresses"
    sentence = (
        "Behind a clusterset IP are pods: no address that the same proxy would have to translate "
        "again, and no node of another cluster."
    )

    def __init__(self, fleet: Fleet, services: UsersActions) -> None:
        super().__init__(fleet)
        self._services = services
        self._exports = Exports(fleet)
        self._judged: dict[ClusterId, object] = {}
        """The state of a cluster that was judged last."""

    async def observe(self) -> AsyncIterator[str]:
        fleet = self.fleet
        for cluster in fleet.names:
            if self._judged.get(cluster) == (
                state := fleet.state_of(cluster, Service, EndpointSlice)
            ):
                continue
            self._judged[cluster] = state
            services = await fleet.objects(cluster, Service, fleet.namespace)
            translated = {s["spec"].get("clusterIP") for s in services}
            async for source, _, endpoint in self._endpoints(cluster):
                if source != cluster and endpoint.get("nodeName"):
                    yield f"{cluster} takes {endpoint} of {source} for one of its nodes"
                if source == cluster and translated & set(endpoint["addresses"]):
                    yield f"{cluster} has its own Service's address {endpoint} as an endpoint"

    async def at_rest(self) -> AsyncIterator[str]:
        if await self._exports.profile() != "kep-1645":
            return
        for name in NAMES:
            exports = await self._exports.of(name)
            if any(e is None or e.headless for e in self._exports.oldest(exports)):
                continue
            for cluster in self.fleet.names:
                if self._services.is_owned(cluster, name) or cluster in self.fleet.left:
                    continue
                found: dict[ClusterId, set[str]] = {c: set() for c in exports}
                async for source, of, endpoint in self._endpoints(cluster):
                    if of == name and endpoint.get("conditions", {}).get("ready", True):
                        found.setdefault(source, set()).update(endpoint["addresses"])
                wanted = {c: set(exported.pods) for c, exported in exports.items()}
                if found != wanted:
                    yield f"{cluster} sends {name} to {found}, and not to {wanted}"

    async def _endpoints(
        self, cluster: ClusterId
    ) -> AsyncIterator[tuple[ClusterId, str, dict[str, Any]]]:
        """Source cluster, service and endpoint of all that is behind clusterset IPs."""
        for found in await self.fleet.objects(cluster, EndpointSlice, self.fleet.namespace):
            labels = found["metadata"].get("labels", {})
            if is_live(found) and SOURCE_CLUSTER in labels and KUBE_SERVICE in labels:
                for endpoint in found.get("endpoints") or ():
                    yield labels[SOURCE_CLUSTER], labels[SERVICE_NAME], endpoint
