"""The items of features that span clusters."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.features.federated.feature import FederatedServices
from hanse.features.federated.names import FEDERATED
from hanse.features.federated.records import Backends, MemberPort, MemberRecord, record_configmap
from hanse.features.federated.view import FederatedView
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.view import HostsView
from hanse.features.networks.feature import Networks
from hanse.features.networks.isolation import cluster_network_policies
from hanse.features.networks.names import NETWORK, TENANT, NetworkName
from hanse.features.networks.view import NetworksView, ReachView
from hanse.features.policies.content import Content
from hanse.features.policies.feature import Policies
from hanse.features.policies.ledger import LocalState, PolicyRecord, record_config_map
from hanse.features.policies.versions import EMPTY_HISTORY, append_event, merge
from hanse.features.policies.view import PoliciesView
from hanse.features.statefulsets.feature import StatefulSets
from hanse.features.statefulsets.view import StatefulSetsView
from hanse.kube.watch_events import Listed
from hanse.model.facts import Phase, Role
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Namespace, Service
from hanse.model.kinds.globalservice import (
    GlobalMember,
    GlobalService,
    GlobalServiceSpec,
    GlobalServiceStatus,
    MemberHealth,
)
from hanse.model.kinds.networks import (
    Network,
    NetworkService,
    NetworkSpec,
    NetworkStatus,
)
from hanse.model.kinds.stateful import (
    Replica,
    Share,
    StatefulSetPart,
    StatefulSetPartSpec,
    StatefulSetShares,
    StatefulSetSharesSpec,
)
from hanse.model.objects import Meta, Object
from hanse.model.plan import Key
from hanse.model.snapshot import ObjectChange, Watch
from hanse.model.view import View, worst
from tests.support.builders import annotated, cluster, snapshot

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def render_item(section: View, key: str, snapshots: MultiClusterSnapshot) -> Any:
    assert key in set(section.keys(snapshots))
    return json.loads(msgspec.json.encode(section.render(key, snapshots)))


def snapshots_of(
    feature: Any, roles: dict[str, tuple[Role, ...]], **objects_by_cluster: list[Object]
) -> MultiClusterSnapshot:
    states = [cluster(name, *several) for name, several in roles.items()]
    return MultiClusterSnapshot({"lubeck": snapshot(feature, "lubeck", states, objects_by_cluster)})


def record(where: str, *ready: str) -> Object:
    backends = (Backends("own", "IPv4", ready=ready),)
    item = MemberRecord(
        where, "Service", "shop", "web", "antrea-plus-system", "web", (MemberPort(80),)
    )
    return record_configmap(msgspec.structs.replace(item, backends=backends))


def test_a_federated_service_shows_its_member_services() -> None:
    snapshots = snapshots_of(
        FederatedServices(),
        {"lubeck": (Role.LOCAL, Role.MEMBER, Role.LED), "bergen": (Role.MEMBER,)},
        lubeck=[record("lubeck", "10.0.0.1", "10.0.0.2")],
        bergen=[record("bergen")],
    )

    item = render_item(FederatedView(), "antrea-plus-system/web", snapshots)

    assert (item["state"], item["told"]) == ("good", "2 ready")
    assert [(p["cluster"], p["state"]) for p in item["parts"]] == [
        ("lubeck", "good"),
        ("bergen", "bad"),
    ]
    assert ["Ports", "80/TCP"] in item["facts"]


def host(*members: tuple[str, int, int, bool]) -> GlobalService:
    return GlobalService(
        metadata=Meta(name="shop.example.com", namespace="avi-system"),
        spec=GlobalServiceSpec(
            host="shop.example.com",
            members=tuple(
                GlobalMember(cluster=c, address=f"192.0.2.{n}", weight=w, priority=p)
                for n, (c, w, p, _) in enumerate(members)
            ),
        ),
        status=GlobalServiceStatus(
            members=tuple(
                MemberHealth(
                    cluster=c, address=f"192.0.2.{n}", up=up, reason="" if up else "no answer"
                )
                for n, (c, _, _, up) in enumerate(members)
            )
        ),
    )


def test_a_host_shows_the_shares_of_those_who_serve_and_why_others_do_not() -> None:
    service = host(
        ("lubeck", 3, 20, True),
        ("bergen", 1, 20, True),
        ("rome", 1, 20, False),
        ("oslo", 9, 10, True),
    )
    led = annotated(service, {"gslb.hanse.dev/leader": "2/lubeck"})
    snapshots = snapshots_of(Gslb(), {"lubeck": (Role.LOCAL,)}, lubeck=[led])

    item = render_item(HostsView(), "avi-system/shop.example.com", snapshots)

    assert [(p["cluster"], p["share"], p["state"]) for p in item["parts"]] == [
        ("lubeck", 75, "good"),
        ("bergen", 25, "good"),
        ("rome", 0, "bad"),
        ("oslo", 0, "idle"),
    ]
    assert item["problems"] == ["rome 192.0.2.2 is down: no answer"]
    assert item["told"] == "3/4 up"
    assert ["Led by", "lubeck, epoch 2"] in item["facts"]


@pytest.mark.parametrize(
    ("members", "shares"),
    [
        pytest.param((("lubeck", 0, 20), ("bergen", 0, 20)), [50, 50], id="all without weight"),
        pytest.param((("lubeck", 0, 20), ("bergen", 1, 10)), [0, 100], id="the first without"),
    ],
)
def test_a_host_shows_the_shares_of_members_without_weight_as_name_servers_answer_them(
    members: tuple[tuple[str, int, int], ...], shares: list[int]
) -> None:
    service = host(*((*member, True) for member in members))
    snapshots = snapshots_of(Gslb(), {"lubeck": (Role.LOCAL,)}, lubeck=[service])

    item = render_item(HostsView(), "avi-system/shop.example.com", snapshots)

    assert [p["share"] for p in item["parts"]] == shares


def part(where: str, *ready: bool, trouble: str = "") -> StatefulSetPart:
    replicas = tuple(Replica(name=f"store-{where}-{n}", ready=one) for n, one in enumerate(ready))
    spec = StatefulSetPartSpec(
        namespace="shop", name="store", cluster=where, replicas=replicas, trouble=trouble
    )
    return StatefulSetPart(
        metadata=Meta(name=f"store-{where}", namespace="hanse-broker"), spec=spec
    )


def test_a_stateful_set_shows_the_replicas_of_each_cluster() -> None:
    shares = StatefulSetShares(
        metadata=Meta(name="store", namespace="shop"),
        spec=StatefulSetSharesSpec(
            shares=(Share(name="lubeck", replicas=2), Share(name="bergen", replicas=2)),
            service="etcd",
        ),
    )
    snapshots = snapshots_of(
        StatefulSets("hanse-broker"),
        {"lubeck": (Role.LOCAL,), "broker": (Role.BROKER,)},
        broker=[shares, part("lubeck", True, True), part("bergen", True, False, trouble="no room")],
    )

    item = render_item(StatefulSetsView(), "shop/store", snapshots)

    assert (item["told"], item["state"]) == ("3/4 ready", "warn")
    assert [(p["cluster"], p["text"], p["share"]) for p in item["parts"]] == [
        ("lubeck", "2/2", 50),
        ("bergen", "1/2", 50),
    ]
    assert item["problems"] == ["bergen: no room"]
    assert ["bergen", "store-bergen-0, store-bergen-1 not ready"] in item["facts"]


def test_a_stateful_set_of_a_newer_hanse_is_shown_as_that() -> None:
    newer = "made by a newer Hanse (form 3, this one reads 2); update this one"
    meta = Meta(name="store", namespace="shop")
    spec = StatefulSetSharesSpec(shares=(Share(name="lubeck", replicas=1),))
    unread = part("lubeck", True)
    unread = replace(unread, spec=replace(unread.spec, schema=3))

    def item(schema: int) -> Any:
        record = StatefulSetShares(metadata=meta, spec=replace(spec, schema=schema))
        roles: dict[str, tuple[Role, ...]] = {"lubeck": (Role.LOCAL,), "broker": (Role.BROKER,)}
        feature = StatefulSets("hanse-broker")
        return render_item(
            StatefulSetsView(),
            "shop/store",
            snapshots_of(feature, roles, broker=[record, unread]),
        )

    assert (item(1)["told"], item(1)["problems"]) == (
        "0/1 ready",
        [f"lubeck: its report: {newer}"],
    )
    assert (item(3)["told"], item(3)["problems"]) == ("cannot be read", [f"shares: {newer}"])


def test_a_policy_shows_where_it_is_blocked_and_versions_that_crossed() -> None:
    key = Key("acnp", "deny")
    made = append_event(EMPTY_HISTORY, "lubeck~1", "Present", Content(spec={"priority": 1}), "a")
    one = append_event(made, "lubeck~1", "Present", Content(spec={"priority": 2}), "b")
    other = append_event(made, "bergen~1", "Present", Content(spec={"priority": 3}), "c")
    crossed = merge(one, other)
    blocked = LocalState(phase="Blocked", reason="Refused", message="no tier gold")
    snapshots = snapshots_of(
        Policies(),
        {"lubeck": (Role.LOCAL, Role.MEMBER, Role.LED), "bergen": (Role.MEMBER,)},
        lubeck=[
            record_config_map(key, PolicyRecord(crossed, LocalState(phase="Applied", uid="1")))
        ],
        bergen=[record_config_map(key, PolicyRecord(crossed, blocked))],
    )

    item = render_item(PoliciesView(), "every namespace/deny", snapshots)

    assert (item["told"], item["state"]) == ("conflict", "warn")
    assert item["problems"] == ["bergen: Refused: no tier gold"]
    assert item["versions"] == [
        ["lubeck (counts)", "priority: 2\n"],
        ["bergen (present, overruled)", "priority: 3\n"],
    ]


def network(name: str, phase: Any = "Ready", cidr: str = "10.250.0.0/30") -> Network:
    tenant = name.partition(".")[0]
    return Network(
        metadata=Meta(name=name),
        spec=NetworkSpec(type="flat", tenant=tenant, service=NetworkService(cidrs=(cidr,))),
        status=NetworkStatus(phase=phase, message="" if phase == "Ready" else "ranges overlap"),
    )


def test_a_network_shows_its_phase_and_how_full_its_pool_is() -> None:
    labels = {TENANT: "acme", NETWORK: "default"}
    space = Namespace(metadata=Meta(name="acme-web", labels={TENANT: "acme"}))
    web = Service(metadata=Meta(name="web", namespace="acme-web", labels=labels))
    snapshots = snapshots_of(
        Networks(),
        {"lubeck": (Role.LOCAL,)},
        lubeck=[
            network("acme.default"),
            network("rival.default", "Failed", cidr="10.250.0.0/33"),
            space,
            web,
        ],
    )

    fine = render_item(NetworksView(), "lubeck/acme.default", snapshots)
    broken = render_item(NetworksView(), "lubeck/rival.default", snapshots)

    assert (fine["told"], fine["parts"][0]["share"]) == ("Ready", 50)
    assert (broken["state"], broken["problems"]) == ("warn", ["ranges overlap"])


def test_a_service_that_is_no_longer_federated_concerns_its_item() -> None:
    before, after = (
        Service(metadata=Meta(name="web", namespace="shop", annotations=annotations))
        for annotations in ({FEDERATED: "true"}, {})
    )

    keys = FederatedView().keys_for(ObjectChange("lubeck", before, after))

    assert set(keys) == {"shop/web"}


def test_a_record_that_loses_its_policy_concerns_the_item_of_the_policy() -> None:
    before = record_config_map(Key("anp", "web", "shop"), PolicyRecord(EMPTY_HISTORY))

    keys = PoliciesView().keys_for(ObjectChange("lubeck", before, replace(before, data={})))

    assert set(keys) == {"shop/web"}


def test_a_service_that_changes_its_network_concerns_both() -> None:
    before, after = (
        Service(metadata=Meta(name="web", namespace="acme-web", labels={TENANT: t}))
        for t in ("acme", "rival")
    )

    keys = NetworksView().keys_for(ObjectChange("lubeck", before, after))

    assert set(keys) == {"lubeck/acme.default", "lubeck/rival.default"}


def test_a_network_of_a_cluster_that_nobody_reaches_is_not_said_to_be_ready() -> None:
    state = cluster("lubeck", Role.LOCAL, phase=Phase.UNREACHABLE)
    found = snapshot(Networks(), "lubeck", [state], {"lubeck": [network("acme.default")]})

    item = render_item(
        NetworksView(), "lubeck/acme.default", MultiClusterSnapshot({"lubeck": found})
    )

    assert (item["state"], item["told"]) == ("warn", "not known")
    assert item["problems"] == ["cluster lubeck is not reached: the network was Ready"]
    assert item["parts"][0]["state"] == "warn"


def test_who_reaches_whom_is_shown_for_each_cluster() -> None:
    spaces: list[Object] = [
        Namespace(metadata=Meta(name=f"{tenant}-web", labels={TENANT: tenant}))
        for tenant in ("acme", "rival")
    ]
    networks: list[Object] = [network("acme.default"), network("rival.default")]
    snapshots = snapshots_of(Networks(), {"lubeck": (Role.LOCAL,)}, lubeck=[*networks, *spaces])

    item = render_item(ReachView(), "lubeck", snapshots)

    assert item["names"][:2] == ["acme.default", "rival.default"]
    assert item["rows"][0][1] == "all", "no policy is written yet"

    admin = [*cluster_network_policies(NetworkName("acme"), ())]
    objects: list[Object] = [*networks, *spaces, *admin]
    snapshots = snapshots_of(Networks(), {"lubeck": (Role.LOCAL,)}, lubeck=objects)

    assert render_item(ReachView(), "lubeck", snapshots)["rows"][0][1] == "none"


def test_who_reaches_whom_is_not_shown_where_policies_were_not_read() -> None:
    read = {Watch(Role.LOCAL, Network): Listed((network("acme.default"),), "1")}
    snapshots = build_fleet([ClusterRead("lubeck", read)], NOW)

    assert ReachView().render("lubeck", snapshots) is None


def test_the_worst_part_is_the_state_of_the_whole() -> None:
    assert worst(("good", "warn", "good")) == "warn"
    assert worst(()) == "idle"
