"""The keys that a change requeues: policies, and the ledger page of each member."""

from collections.abc import Iterable, Iterator

from hanse.features.policies.content import (
    CLUSTER_WIDE,
    KINDS,
    NAMESPACED,
    is_federated,
    policy_key,
)
from hanse.features.policies.ledger import (
    PAGE_TOPIC,
    LedgerPage,
    PolicyRecord,
    decode_page,
    decode_record,
    record_key,
)
from hanse.features.policies.member_view import (
    definition_name,
    is_led_by_us,
    list_leaving_members,
    list_members,
    read_ledger_pages,
)
from hanse.model.facts import (
    ClusterDeparted,
    ClusterState,
    KindServed,
    Leadership,
    WriteOutcome,
)
from hanse.model.kinds.acceptance import AcceptancePolicy
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.core import ConfigMap, Namespace
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import IDENTITY_NAMESPACE
from hanse.model.plan import Key
from hanse.model.snapshot import Change, FactChange, Index, ObjectChange, Snapshot

_TOPICS_BY_DEFINITION = {definition_name(Key(topic)): topic for topic in KINDS}


def _record_namespace(config_map: ConfigMap) -> Iterable[str]:
    """The index value of a record: its policy's namespace; none if cluster-wide, or no record."""
    key = record_key(config_map)
    return [key.namespace] if key is not None and key.namespace else []


RECORDS_BY_NAMESPACE = Index(ConfigMap, "policies-namespace", _record_namespace)


def keys_for_change(change: Change, snapshot: Snapshot) -> Iterable[Key]:
    """The policies and ledger pages whose plans may differ after a change."""
    match change:
        case ObjectChange():
            return _keys_for_object(change, snapshot)
        case FactChange():
            return _keys_for_fact(change, snapshot)


def _keys_for_object(change: ObjectChange, snapshot: Snapshot) -> Iterable[Key]:
    """The keys for a changed object, by its kind: a policy's own, and the pages of joining members.

    A record or page: by `_keys_for_records`. Hanse's system namespace: all keys. kube-system: the
    page of the cluster. Another namespace: the policies recorded in it. An AcceptancePolicy: all
    namespaced policies. A policy's definition: all of that kind. Any other object: none.
    """
    match change.object:
        case AntreaClusterNetworkPolicy() | AntreaNetworkPolicy() as policy:
            return [policy_key(policy), *_joining_page_keys(snapshot)]
        case ConfigMap():
            versions = [o for o in (change.before, change.after) if isinstance(o, ConfigMap)]
            return _keys_for_records(versions, snapshot)
        case Namespace() as namespace if namespace.metadata.name == SYSTEM:
            return _all_keys(snapshot)
        case Namespace() as namespace if namespace.metadata.name == IDENTITY_NAMESPACE:
            return [Key(PAGE_TOPIC, change.where)]
        case Namespace() as namespace:
            return _keys_in_namespace(namespace.metadata.name, snapshot)
        case AcceptancePolicy():
            return [k for k in _all_keys(snapshot) if k.namespace]
        case CustomResourceDefinition() as definition:
            topic = _TOPICS_BY_DEFINITION.get(definition.metadata.name)
            return [k for k in _all_keys(snapshot) if k.topic == topic]
        case _:
            return ()


def _keys_for_records(config_maps: list[ConfigMap], snapshot: Snapshot) -> Iterator[Key]:
    """The keys for a record or page, given before and after its change; none for other ConfigMaps.

    Its own key, and: for a page what `_keys_for_pages` says, for the record of an ended policy the
    pages of all led members, for another record those of led members that are joining.
    """
    keys = {key for each in config_maps if (key := record_key(each)) is not None}
    yield from keys
    if not keys:
        return
    if any(key.topic == PAGE_TOPIC for key in keys):
        yield from _keys_for_pages(config_maps, snapshot)
    elif any(_is_tombstone(each) for each in config_maps):
        yield from _led_page_keys(snapshot)
    else:
        yield from _joining_page_keys(snapshot)


def _keys_for_pages(config_maps: list[ConfigMap], snapshot: Snapshot) -> Iterator[Key]:
    """The policies whose collected records changed on a page, and the pages of led members.

    All keys instead if the page has appeared, is gone or unreadable, or changed its cluster's uid,
    its stay, or the members that left.
    """
    pages = [page for each in config_maps if isinstance(page := decode_page(each), LedgerPage)]
    if len(pages) < 2 or len({(p.cluster, p.stay, str(p.left)) for p in pages}) > 1:
        yield from _all_keys(snapshot)  # the records of other members may count from now on
        return
    before, after = (page.collected for page in pages)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        topic, namespace, policy = name.split("/", 2)
        yield Key(topic, policy, namespace)
    yield from _led_page_keys(snapshot)


def _is_tombstone(config_map: ConfigMap) -> bool:
    """Whether a ConfigMap holds the record of an ended policy (phase Released)."""
    record = decode_record(config_map)
    return isinstance(record, PolicyRecord) and record.here.phase == "Released"


def _led_page_keys(snapshot: Snapshot) -> Iterator[Key]:
    """The keys of the ledger pages of members that this agent leads and that are not leaving."""
    return (Key(PAGE_TOPIC, m) for m in list_members(snapshot) if is_led_by_us(m, snapshot))


def _joining_page_keys(snapshot: Snapshot) -> Iterator[Key]:
    """The keys of the pages of led members that have not completed their ledger yet."""
    led = [member for member in list_members(snapshot) if is_led_by_us(member, snapshot)]
    ledgers = read_ledger_pages(snapshot) if led else None
    for member in led:
        if ledgers is not None and not ledgers.has_joined(member, snapshot):
            yield Key(PAGE_TOPIC, member)


def _keys_for_fact(change: FactChange, snapshot: Snapshot) -> Iterable[Key]:
    """All keys for a cluster's state, departure or leadership, or whether a policy kind is served.

    The policy's key for the outcome of a write of it; none for other facts.
    """
    match change.fact:
        case ClusterState() | ClusterDeparted() | Leadership():
            return _all_keys(snapshot)
        case KindServed(_, kind) if any(kind == k.kind for k in KINDS.values()):
            return _all_keys(snapshot)
        case WriteOutcome(place):
            ref = place.ref
            topics = {CLUSTER_WIDE, NAMESPACED} if ref.kind.group == "crd.antrea.io" else set()
            return [Key(t, ref.name, ref.namespace) for t in topics if KINDS[t].kind == ref.kind]
        case _:
            return ()


def _keys_in_namespace(namespace: str, snapshot: Snapshot) -> Iterable[Key]:
    """The policies of a namespace of which some member has a record."""
    found = (
        record
        for member in list_members(snapshot)
        for record in snapshot.by(member, RECORDS_BY_NAMESPACE, namespace)
    )
    return {key for record in found if (key := record_key(record)) is not None}


def _all_keys(snapshot: Snapshot) -> list[Key]:
    """Every policy federated or recorded in any member, every stored page, every led member's page.

    Sorted. Members that are leaving count, but need no page.
    """
    keys = set(_led_page_keys(snapshot))
    for member in (*list_members(snapshot), *list_leaving_members(snapshot)):
        for config_map in snapshot.all(member, ConfigMap):
            key = record_key(config_map)
            if key is not None:
                keys.add(key)
        for kind in KINDS.values():
            policies = snapshot.all(member, kind)
            keys.update(policy_key(policy) for policy in policies if is_federated(policy))
    return sorted(keys)
