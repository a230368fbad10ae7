"""A world with the toy feature, and features and systems for tests of the rules."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

import msgspec

from hanse.kube.errors import NotFound, Unreachable
from hanse.model.facts import (
    Leadership,
    Role,
)
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import K, Meta, Object
from hanse.model.plan import Desired, Feature, Key, Plan
from hanse.model.snapshot import Change, ObjectChange, Snapshot, Watch, Writes
from tests.support.builders import namespace
from tests.support.toy import HOME, OFFER, Toy
from tests.support.world import BROKER, World

SHOP = "shop"


def offer(name: str, /, **data: str) -> ConfigMap:
    return ConfigMap(metadata=Meta(name=name, namespace=SHOP, labels={OFFER: "yes"}), data=data)


@asynccontextmanager
async def toy_world(
    *names: str, features: Sequence[Feature] = (), agents: bool = True
) -> AsyncIterator[World]:
    """A world with the namespaces that the toy feature needs."""
    world = World(names or ("lubeck", "hamburg"), lambda: features or (Toy(),))
    for name in world.names:
        await world.client(name).create(namespace(SHOP))
    await world.client(BROKER).create(namespace(HOME))
    if not agents:
        yield world
        return
    async with world.agents_running():
        yield world


async def find_configmap(
    world: World, where: str, name: str, space: str = SHOP
) -> ConfigMap | None:
    try:
        return await world.client(where).read(ConfigMap, name, space)
    except NotFound:
        return None


async def get_configmap(world: World, where: str, name: str, space: str = SHOP) -> ConfigMap:
    obj = await find_configmap(world, where, name, space)
    assert obj is not None, f"{name} is not in {where}"
    return obj


def prices(copy: ConfigMap | None) -> dict[str, str]:
    assert copy is not None, "there is no copy"
    return {c: msgspec.json.decode(d)["price"] for c, d in copy.data.items()}


class LeaderFeature:
    """Writes one ConfigMap into every member as its leader."""

    name = "crown"
    watches: tuple[Watch, ...] = (
        Watch(Role.LED, ConfigMap, writes=Writes.OBJECTS),
        Watch(Role.LOCAL, ConfigMap),
    )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        return [Key("crown")]

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        source = snapshot.get(snapshot.local, ConfigMap, "law", SHOP)
        if source is None:
            return Plan()
        law = ConfigMap(metadata=Meta(name="law", namespace=SHOP), data=source.data)
        led = [m.member for m in snapshot.facts(Leadership) if m.ours]
        return Plan(tuple(Desired(law, m, as_leader_of=m) for m in led))


class InMemorySystem:
    """An external system in memory, with no versions of its own."""

    kinds = (ConfigMap,)

    def __init__(self) -> None:
        self.rows: dict[str, ConfigMap] = {}
        self.down = False

    async def list(self, kind: type[K]) -> Sequence[K]:
        if self.down:
            raise Unreachable("the ledger is closed")
        return [o for o in self.rows.values() if isinstance(o, kind)]

    async def create(self, obj: K) -> K:
        return await self.update(obj)

    async def update(self, obj: K) -> K:
        assert isinstance(obj, ConfigMap)
        self.rows[obj.metadata.name] = obj
        return obj

    async def delete(self, obj: Object) -> None:
        del self.rows[obj.metadata.name]


class ExternalFeature:
    """Writes every ConfigMap of the shop into the external system."""

    name = "clerk"
    watches = (
        Watch(Role.LOCAL, ConfigMap, namespace=SHOP),
        Watch(Role.MEMBER, ConfigMap, writes=Writes.OBJECTS),
    )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        if isinstance(change, ObjectChange) and change.where == snapshot.local:
            yield Key("row", change.object.metadata.name)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        source = snapshot.get(snapshot.local, ConfigMap, key.name, SHOP)
        if source is None or "sum" not in source.data:
            return Plan()
        row = ConfigMap(metadata=Meta(name=key.name), data=source.data)
        return Plan((Desired(row, "ledger"),))
