"""A small feature for the tests of the runtime: it shares ConfigMaps between clusters.

A ConfigMap labelled `toy.hanse.dev/offer` is recorded on the broker, in namespace `toy`. Every
cluster that has its namespace gets one copy with the data of all offers of that name, by cluster,
and after it a receipt; the broker gets one sum, which any agent may write. The offer gets an
annotation once it is recorded.
"""

from collections.abc import Iterable

import msgspec

from hanse.model.facts import ClusterState, Role, WriteOutcome
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.objects import ClusterId, ClusterObjectRef, Meta, object_ref
from hanse.model.plan import Desired, EventRequest, Key, Patch, Plan, Shared
from hanse.model.snapshot import (
    Change,
    FactChange,
    Index,
    ObjectChange,
    Snapshot,
    Watch,
    Writes,
)

OFFER = "toy.hanse.dev/offer"
RECORD = "toy.hanse.dev/record"
FROM = "toy.hanse.dev/from"
OFFERED = "toy.hanse.dev/offered"
HOME = "toy"
REPORTED = ("Foreign", "Refused", "Forbidden")

BY_OFFER = Index(ConfigMap, "toy-offer", lambda c: [c.metadata.labels.get(RECORD, "")])


class Toy:
    """Shares ConfigMaps by one broker."""

    name = "toy"
    watches: tuple[Watch, ...] = (
        Watch(Role.LOCAL, ConfigMap, writes=Writes.OBJECTS),
        Watch(Role.LOCAL, Namespace),
        Watch(Role.BROKER, ConfigMap, namespace=HOME, indexes=(BY_OFFER,), writes=Writes.OBJECTS),
    )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        match change:
            case ObjectChange(where, before, after):
                if where == snapshot.local and isinstance(change.object, Namespace):
                    return self._all(snapshot, change.object.metadata.name)
                objects = [o for o in (before, after) if isinstance(o, ConfigMap)]
                if where == snapshot.local:
                    return [_key("offer", o) for o in objects if OFFER in o.metadata.labels]
                return [key for o in objects for key in _record_keys(o)]
            case FactChange():
                fact = change.fact
                if isinstance(fact, WriteOutcome):
                    namespace, _, rest = fact.target.ref.name.partition(".")
                    return [Key("offer", rest.removesuffix(f".{snapshot.local}"), namespace)]
                return self._all(snapshot) if isinstance(fact, ClusterState) else []

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        match key.topic:
            case "offer":
                return self._offer(key, snapshot)
            case "copy":
                return self._copy(key, snapshot)
            case _:
                return self._sum(key, snapshot)

    def _offer(self, key: Key, snapshot: Snapshot) -> Plan:
        offer = snapshot.get(snapshot.local, ConfigMap, key.name, key.namespace)
        if offer is None or OFFER not in offer.metadata.labels:
            return Plan()
        desired: list[Desired] = []
        for broker in _brokers(snapshot):
            record = ConfigMap(
                metadata=Meta(
                    name=f"{key.namespace}.{key.name}.{snapshot.local}",
                    namespace=HOME,
                    labels={RECORD: f"{key.namespace}.{key.name}", FROM: snapshot.local},
                ),
                data=offer.data,
            )
            desired.append(Desired(record, broker, sources=frozenset({snapshot.local})))
        place = ClusterObjectRef(snapshot.local, object_ref(offer))
        trouble = [
            snapshot.fact(WriteOutcome, ClusterObjectRef(d.where, object_ref(d.object)))
            for d in desired
        ]
        refused = [t.message for t in trouble if t is not None and t.result in REPORTED]
        message = "; ".join(refused) or "yes"
        patch = Patch(place, {"metadata": {"annotations": {OFFERED: message}}})
        event = EventRequest(place, "Offered", f"{key.name} is offered: {message}")
        return Plan(tuple(desired), patches=(patch,), events=(event,))

    def _copy(self, key: Key, snapshot: Snapshot) -> Plan:
        offers = _offers(key, snapshot)
        home = snapshot.get(snapshot.local, Namespace, key.namespace)
        if not offers or home is None or home.metadata.deletion_timestamp is not None:
            return Plan()
        sources = frozenset(_brokers(snapshot))
        copy = ConfigMap(
            metadata=Meta(name=f"copy-of-{key.name}", namespace=key.namespace),
            data={c: msgspec.json.encode(o.data, order="sorted").decode() for c, o in offers},
        )
        receipt = ConfigMap(
            metadata=Meta(name=f"receipt-of-{key.name}", namespace=key.namespace),
            data={"from": ",".join(c for c, _ in offers)},
        )
        return Plan(
            (
                Desired(copy, snapshot.local, sources=sources),
                Desired(receipt, snapshot.local, sources=sources, step=1),
            )
        )

    def _sum(self, key: Key, snapshot: Snapshot) -> Plan:
        offers = _offers(key, snapshot)
        if not offers:
            return Plan()
        order = [c for c, _ in offers]
        total = ConfigMap(
            metadata=Meta(name=f"sum.{key.namespace}.{key.name}", namespace=HOME),
            data={"clusters": ",".join(order)},
        )
        rank = order.index(snapshot.local) if snapshot.local in order else len(order)
        return Plan(
            tuple(Desired(total, b, ownership=Shared(rank)) for b in _brokers(snapshot)),
        )

    def _all(self, snapshot: Snapshot, namespace: str = "") -> list[Key]:
        keys = {
            _key("offer", o)
            for o in snapshot.all(snapshot.local, ConfigMap)
            if OFFER in o.metadata.labels and namespace in ("", o.metadata.namespace)
        }
        for broker in _brokers(snapshot):
            for record in snapshot.all(broker, ConfigMap):
                keys.update(k for k in _record_keys(record) if namespace in ("", k.namespace))
        return sorted(keys)


def _brokers(snapshot: Snapshot) -> tuple[ClusterId, ...]:
    return snapshot.clusters(Role.BROKER)


def _offers(key: Key, snapshot: Snapshot) -> list[tuple[ClusterId, ConfigMap]]:
    found = {
        record.metadata.labels[FROM]: record
        for broker in _brokers(snapshot)
        for record in snapshot.by(broker, BY_OFFER, f"{key.namespace}.{key.name}")
        if FROM in record.metadata.labels
    }
    return sorted(found.items())


def _key(topic: str, obj: ConfigMap) -> Key:
    return Key(topic, obj.metadata.name, obj.metadata.namespace)


def _record_keys(record: ConfigMap) -> list[Key]:
    namespace, dot, name = record.metadata.labels.get(RECORD, "").partition(".")
    return [Key(topic, name, namespace) for topic in ("copy", "sum")] if dot else []
