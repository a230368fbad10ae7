"""External names of federated Services, answered by our own name server."""

from collections import Counter

import pytest
from msgspec.structs import replace

from hanse.features.federated.health import SILENT_AFTER
from hanse.features.federated.names import SHARES, TARGETS
from hanse.features.federated.records import Backends, MemberPort
from hanse.features.federated.zone import FederatedZone
from hanse.model.dns.zones import View
from hanse.model.facts import Phase, Role
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointPort
from hanse.model.objects import Object
from hanse.model.snapshot import Snapshot
from tests.dns.builders import ZoneResolver, ZoneWatcher
from tests.features.federated.builders import (
    HERE,
    applied_objects,
    member,
    observed,
    record,
    stored_configmap,
)
from tests.support.builders import annotated, cluster, snapshot, stored
from tinykube.virtual_time import EPOCH

HOST = "shop.example.org"
VIEW = View("outside", global_zones=("example.org",))
BALANCED = record(HERE, "203.0.113.1", hostname=HOST)
NODE_PORT = record(
    "bergen",
    ports=(MemberPort(port=80, name="web"),),
    backends=(
        Backends("nodes", "IPv4", (EndpointPort(port=30080, name="web"),), ready=("203.0.113.3",)),
    ),
)


class HostWatcher(ZoneWatcher):
    watches = FederatedZone(VIEW).watches


def answers(*services: Object) -> ZoneResolver:
    seen = snapshot(HostWatcher(), HERE, [cluster(HERE, Role.LOCAL)], {HERE: services})
    return ZoneResolver(seen, VIEW, FederatedZone)


def federated_service(view: Snapshot) -> Service:
    [made] = [o for o in applied_objects(view) if isinstance(o, Service)]
    return made


RECORDS = {
    HERE: [stored_configmap(BALANCED, age=9)],
    "bergen": [stored_configmap(NODE_PORT, age=1)],
}


def test_a_host_name_has_the_addresses_of_all_members_and_the_ports_to_dial() -> None:
    ask = answers(federated_service(observed(RECORDS)))

    assert set(ask(HOST).records) == {"203.0.113.1", "203.0.113.3"}
    assert set(ask(f"_http._tcp.{HOST}", "SRV").records) == {
        f"0 50 80 203-0-113-1.{HOST}.",
        f"0 50 30080 203-0-113-3.{HOST}.",
    }, "a node port has a number of its own"
    assert ask(f"203-0-113-3.{HOST}").records == ("203.0.113.3",)
    assert ask("other.example.org").code == "NXDOMAIN"
    assert ask("shop.example.net").code == "REFUSED"


def test_a_silent_member_is_not_in_the_answer() -> None:
    silent = replace(member("bergen", phase=Phase.UNREACHABLE), silent=True)
    gone = replace(silent, since=EPOCH - SILENT_AFTER)

    ask = answers(federated_service(observed(RECORDS, states=[gone])))

    assert ask(HOST).records == ("203.0.113.1",)


def test_a_host_name_belongs_to_the_oldest_service_that_has_it() -> None:
    first = federated_service(observed(RECORDS))
    other = replace(first, metadata=replace(first.metadata, name="thief"))
    thief = annotated(stored(other, age=-9), {TARGETS: '{"192.0.2.66":{}}'})

    ask = answers(first, thief)

    assert "192.0.2.66" not in ask(HOST).records


def test_a_member_with_a_host_name_is_an_alias_and_nonsense_is_no_answer() -> None:
    named = Backends("a", "FQDN", (), ready=("lb.example.net",))
    theirs = stored_configmap(record("bergen", backends=(named,), hostname=HOST))
    alias = federated_service(observed({"bergen": [theirs]}))

    assert answers(alias)(HOST, "CNAME").records == ("lb.example.net.",)
    assert answers(annotated(alias, {TARGETS: "{"}))(HOST).code == "NXDOMAIN"


@pytest.mark.parametrize("port", [-1, 0, 70000])
def test_targets_with_a_number_that_is_no_port_are_no_answer(port: int) -> None:
    own = federated_service(observed(RECORDS))
    forged = annotated(own, {TARGETS: f'{{"192.0.2.66":{{"http/TCP":{port}}}}}'})

    assert answers(forged)(HOST).code == "NXDOMAIN"


@pytest.mark.parametrize("weight", [-5, 10**30])
def test_shares_with_a_number_that_is_no_weight_do_not_count(weight: int) -> None:
    own = federated_service(observed(RECORDS))
    forged = annotated(own, {SHARES: f'[["bergen",{weight},["203.0.113.3"]]]'})

    assert set(answers(forged)(HOST).records) == {"203.0.113.1", "203.0.113.3"}


# -- weights and priorities


def shared(**bergen: int) -> Service:
    """The federated Service of lubeck with weight 3, and of bergen with two addresses."""
    mine = replace(BALANCED, weight=3)
    ready = replace(NODE_PORT.backends[0], ready=("203.0.113.3", "203.0.113.4"))
    theirs = replace(NODE_PORT, backends=(ready,), **bergen)
    records = {HERE: [stored_configmap(mine, age=9)], "bergen": [stored_configmap(theirs, age=1)]}
    return federated_service(observed(records))


def test_members_are_answered_in_turn_by_weight() -> None:
    ask = answers(shared())

    found = Counter(tuple(sorted(ask(HOST).records)) for _ in range(40))

    assert found == {("203.0.113.1",): 30, ("203.0.113.3", "203.0.113.4"): 10}
    assert set(ask(f"_http._tcp.{HOST}", "SRV").records) == {
        f"0 1000 80 203-0-113-1.{HOST}.",
        f"0 167 30080 203-0-113-3.{HOST}.",
        f"0 167 30080 203-0-113-4.{HOST}.",
    }, "an SRV record has the part of its address in its member's share"


@pytest.mark.parametrize("setting", [{"weight": 0}, {"priority": 9}], ids=["weight", "priority"])
def test_a_member_without_a_share_is_answered_when_no_other_is_ready(
    setting: dict[str, int],
) -> None:
    alone = replace(NODE_PORT, hostname=HOST, **setting)
    down = {"bergen": [stored_configmap(alone, age=1)]}

    assert answers(shared(**setting))(HOST).records == ("203.0.113.1",)
    assert answers(federated_service(observed(down)))(HOST).records == ("203.0.113.3",)


def test_members_of_equal_weight_are_answered_together() -> None:
    ask = answers(shared(weight=3))

    assert len(ask(HOST).records) == 3


def test_shares_that_cannot_be_read_do_not_end_a_name() -> None:
    broken = annotated(shared(), {SHARES: "[[1]]"})

    assert len(answers(broken)(HOST).records) == 3
