"""Sets written by a newer version: nothing is misread, and the reason is explained."""

from msgspec.structs import replace

from hanse.app.explain_replicas import explain_replica
from hanse.dns.compiler import Compiler
from hanse.features.publishing.feature import Publishing
from hanse.features.publishing.options import PublishingOptions
from hanse.features.statefulsets.options import StatefulSetOptions
from hanse.features.statefulsets.zone import SERVICE, StatefulSetZone
from hanse.model.dns.zones import View
from hanse.model.kinds.stateful import SCHEMA, StatefulSetPart, StatefulSetShares
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot
from hanse.runtime.diff import diff
from hanse.runtime.ownership import Owner, with_owner
from tests.features.statefulsets.test_zone import (
    FEDERATION,
    HOME,
    SPACE,
    WIDE,
    Names,
    part,
    parts,
    pods,
    seen_by,
    shares,
    shares_of,
)
from tests.support.builders import stored

NEWER = "made by a newer Hanse (form 3, this one reads 2); update this one"
ZONE = StatefulSetZone(View("c1", local="c1"), HOME)
ETCD = Key(f"statefulsets.{SERVICE}", "etcd", SPACE)


def newer_shares(**of: int) -> StatefulSetShares:
    known = shares(True, **of)
    return replace(known, spec=replace(known.spec, schema=SCHEMA + 1))


def newer(answer: StatefulSetPart) -> StatefulSetPart:
    return replace(answer, spec=replace(answer.spec, schema=SCHEMA + 1))


def after(compiler: Compiler, snapshot: Snapshot) -> set[bytes]:
    """The names that are told once this was seen."""
    compiler.enqueue_all(snapshot)
    compiler.compile(snapshot)
    return {node.name for node in compiler.full_delta().nodes}


def test_the_conditions_of_a_set_are_kept_when_its_shares_become_unreadable() -> None:
    compiler = Compiler(ZONE.view, [ZONE])
    answer = after(compiler, seen_by("c1", [shares(), *parts()], [pods("c1", 4)]))

    assert after(compiler, seen_by("c1", [newer_shares(c1=1), *parts()], [pods("c1", 4)])) == answer


def test_a_cluster_whose_report_cannot_be_read_is_left_out_and_the_others_are_shown() -> None:
    names = Names(seen_by("c1", [shares(), part("c1", "198.19.1.1"), newer(part("c2", "1.2.3.4"))]))

    assert names.ask(f"store-c1-0.{WIDE}").records == ("198.19.1.1",)
    assert names.ask(f"store-c2-0.{WIDE}").records == ()


def test_what_was_published_is_kept_too() -> None:
    publishing = Publishing([ZONE], PublishingOptions("example.com", endpoints_in="dns"))
    known = seen_by("c1", [shares(c1=1), part("c1", "198.19.1.1")])
    (desired,) = publishing.plan(ETCD, known).desired
    owner = Owner("publishing", ETCD, "c1")
    standing = stored(with_owner(desired.object, owner))

    unread = seen_by("c1", [newer_shares(c1=2), part("c1", "198.19.1.9")])
    plan = publishing.plan(ETCD, unread)

    assert diff("publishing", ETCD, plan, [("c1", owner, standing)], unread).actions == ()


def test_the_message_asks_for_an_update() -> None:
    options = StatefulSetOptions()
    answer = explain_replica(WIDE, 33, options, ZONE, seen_by("c1", [newer_shares()]))
    assert answer.code == "SERVFAIL"
    assert f"StatefulSetShares {SPACE}/store: {NEWER}" in answer.rule

    half = seen_by("c1", [shares(c1=1, c2=1), part("c1", "198.19.1.1"), newer(part("c2"))])
    answer = explain_replica(WIDE, 33, options, ZONE, half)
    assert [(o.cluster, o.why) for o in answer.left_out] == [("c2", f"its report: {NEWER}")]


def test_a_set_is_not_explained_by_another_whose_name_begins_its_own() -> None:
    both = seen_by("c1", [newer_shares(), shares_of("store-eu")])

    for name in ("store-eu", "store-eu-c1-0"):
        answer = explain_replica(f"{name}.{FEDERATION}", 1, StatefulSetOptions(), ZONE, both)
        assert answer.code != "SERVFAIL", answer.rule
