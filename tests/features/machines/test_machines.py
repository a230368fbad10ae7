"""What machines become by their tags, whichever kind describes them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.machines.machine import dns_label
from hanse.features.machines.names import MACHINE_LABEL, SERVICE_LABEL, VM_SERVICE
from hanse.model.facts import WriteOutcome
from hanse.model.kinds.antrea import ExternalEntity
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import VirtualMachine, VirtualMachineStatus
from hanse.model.naming import is_service_name
from hanse.model.objects import ClusterObjectRef, Meta, Object, object_ref
from hanse.model.plan import Key, Plan
from hanse.model.snapshot import ObjectChange
from tests.features.machines.builders import (
    ENTITIES,
    FEATURE,
    HERE,
    PORTS,
    SHOP,
    TAG,
    kubevirts,
    nephes,
    ours,
    planned,
    seen,
    wanted,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH


def addresses(plan: Plan) -> list[str]:
    slices = wanted(plan, EndpointSlice)
    return [a for s in slices for e in s.endpoints or () for a in e.addresses]


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(ours("m", "10.7.0.1"), id="ours"),
        pytest.param(nephes("m", "10.7.0.1", {TAG: "db"}), id="nephe"),
        pytest.param(kubevirts("m", "10.7.0.1", labels={TAG: "db"}), id="KubeVirt, label"),
        pytest.param(kubevirts("m", "10.7.0.1", annotations={TAG: "db"}), id="KubeVirt too"),
        pytest.param(ours("m", tags={"svc.antreaplus.vmware-tanzu.com": "db"}), id="as tanzu"),
        pytest.param(ours("m", tags={"svc.antreaplus.tanzu-vmware.com": "db"}), id="turned round"),
        pytest.param(ours("m", tags={"svc.antreaplus.vmware-tanzue.com": "db"}), id="misspelled"),
    ],
)
def test_a_tagged_machine_is_a_service(machine: Object) -> None:
    plan = planned(seen(machine))

    [service] = wanted(plan, Service)
    assert VM_SERVICE in service.metadata.annotations
    assert service.headless
    [piece] = wanted(plan, EndpointSlice)
    assert piece.metadata.labels["kubernetes.io/service-name"] == "db"
    assert addresses(plan) == ["10.7.0.1"]
    assert [e.hostname for e in piece.endpoints or ()] == [dns_label("m")]


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        pytest.param(ours(external="203.0.113.5"), ["203.0.113.5"], id="external first"),
        pytest.param(ours(internal="fd00::5"), ["fd00::5"], id="IPv6"),
        pytest.param(ours(external="fd00::5"), ["10.7.0.1", "fd00::5"], id="2"),
        pytest.param(ours(internal="127.0.0.1"), [], id="loopback is none"),
        pytest.param(ours(state="stopped"), [], id="stopped"),
        pytest.param(ours(state="Running"), ["10.7.0.1"], id="running, in capitals"),
        pytest.param(kubevirts("m", "10.7.0.1", "Pending", labels={TAG: "db"}), [], id="pending"),
    ],
)
def test_the_address_of_a_machine(machine: Object, told: list[str]) -> None:
    assert addresses(planned(seen(machine))) == told


def test_machines_of_all_kinds_share_a_service_and_its_ports_are_joined() -> None:
    view = seen(
        ours("a", "10.7.0.1", tags={TAG: "db", PORTS: "sql:5432"}),
        nephes("b", "10.7.0.2", {TAG: "db", PORTS: "sql:5432/TCP,9100/TCP"}),
        kubevirts("c", "10.7.0.3", annotations={TAG: "db", PORTS: "sql:5432/UDP"}),
    )

    plan = planned(view)

    [service] = wanted(plan, Service)
    assert [(p.name, p.port, p.protocol) for p in service.spec.ports] == [
        ("sql", 5432, "TCP"),
        ("udp-5432", 5432, "UDP"),
        ("tcp-9100", 9100, "TCP"),
    ]
    assert not service.headless
    assert addresses(plan) == ["10.7.0.1", "10.7.0.2", "10.7.0.3"]


def test_the_service_stays_without_endpoints_until_the_last_machine_is_gone() -> None:
    assert wanted(planned(seen(ours(state="stopped"))), Service)
    assert planned(seen()) == Plan()


def test_a_machine_without_a_name_is_called_by_its_id() -> None:
    machine = ours(tags={TAG: ""}, id_="i-0A1b")
    [key] = [
        k
        for k in FEATURE.keys_for(ObjectChange(HERE, None, machine), seen(machine))
        if k.topic == "service"
    ]

    assert key.name.startswith("i-0a1b-")
    [service] = wanted(FEATURE.plan(key, seen(machine)), Service)
    assert service.metadata.name == key.name


def test_federation_tags_are_carried_over_to_the_service() -> None:
    mark = "svc.global.federated.antreaplus.vmware.com"
    plan = planned(seen(ours(tags={TAG: "db", mark: "all-db", "team": "x"})))

    [service] = wanted(plan, Service)
    assert service.metadata.annotations == {VM_SERVICE: "true", mark: "all-db"}


def test_a_service_that_must_lose_or_get_its_address_is_recreated() -> None:
    headless = stored(
        Service(
            metadata=Meta(name="db", namespace=SHOP, annotations={VM_SERVICE: "true"}),
            spec=ServiceSpec(cluster_ip="None"),
        )
    )

    assert planned(seen(headless, ours(tags={TAG: "db", PORTS: "80"}))).desired == ()
    assert planned(seen(headless, ours())).desired != ()


def test_a_foreign_service_of_that_name_is_left_alone_and_reported() -> None:
    foreign = stored(
        Service(
            metadata=Meta(name="db", namespace=SHOP),
            spec=ServiceSpec(ports=(ServicePort(port=80),)),
        )
    )
    taken = WriteOutcome(
        ClusterObjectRef(HERE, object_ref(foreign)), "Foreign", "it was not made by Hanse", EPOCH
    )

    plan = planned(seen(foreign, ours(), facts=[taken]))

    told = {
        p.place.ref.kind.name: [
            (c["type"], c["status"], c["reason"]) for c in p.change["status"]["conditions"]
        ]
        for p in plan.patches
    }
    assert told == {
        "VirtualMachine": [("Served", "False", "NameTaken")],
        "Service": [("MachineNameFree", "False", "NameTaken")],
    }
    assert {n.reason for n in plan.events} == {"NameTaken"}

    [standing] = [
        replace(ours(), status=msgspec.convert(p.change["status"], VirtualMachineStatus))
        for p in plan.patches
        if p.place.ref.kind == VirtualMachine.kind
    ]
    restarted, empty = planned(seen(foreign, standing)), planned(seen(standing))
    assert "Served" not in [n.reason for n in (*restarted.events, *empty.events)]
    assert [p for p in empty.patches if p.place.ref.kind == VirtualMachine.kind] == []
    assert {c["status"] for p in restarted.patches for c in p.change["status"]["conditions"]} == {
        "False"
    }


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        pytest.param({TAG: "Not_a_name"}, f"tag {TAG}: 'Not_a_name' cannot be", id="name"),
        pytest.param(
            {TAG: "db", PORTS: "http:eighty"}, f"tag {PORTS}: 'http:eighty' is", id="port"
        ),
        pytest.param({TAG: "db", PORTS: "http:99999"}, "'http:99999' is not like", id="number"),
        pytest.param({TAG: "db", PORTS: "80/ICMP"}, "'80/ICMP' is not like", id="protocol"),
    ],
)
def test_a_bad_tag_is_reported_on_the_machine(tags: dict[str, str], said: str) -> None:
    machine = ours(tags=tags)
    view = seen(machine)

    plans = [
        FEATURE.plan(k, view) for k in FEATURE.keys_for(ObjectChange(HERE, None, machine), view)
    ]

    told = [c for plan in plans for p in plan.patches for c in p.change["status"]["conditions"]]
    assert [c["reason"] for c in told] == ["InvalidTag"]
    assert said in told[0]["message"]


@pytest.mark.parametrize(
    "address", ["", "300.1.1.1", "127.0.0.1", "::ffff:10.0.0.1", "2001:db8::1%eth0"]
)
def test_a_machine_without_an_address_is_reported_and_blocks_no_other(address: str) -> None:
    plan = planned(seen(ours("bad", address), ours("good", "10.7.0.2")))

    assert addresses(plan) == ["10.7.0.2"]
    [notice] = plan.events
    assert (notice.place.ref.name, notice.reason) == ("bad", "NoAddress")


def test_a_machine_that_does_not_run_needs_no_address() -> None:
    assert planned(seen(ours("off", "", state="stopped"))).events == ()


def test_each_machine_and_each_service_has_an_entity() -> None:
    machine = ours(tags={TAG: "db", PORTS: "sql:5432", "team": "x", "bad key!": "y"})
    view = seen(machine, ours("db-2", "10.7.0.2"), facts=[ENTITIES])

    [of_machine] = wanted(planned(view, "db-1", "machine0"), ExternalEntity)
    [of_service] = wanted(planned(view), ExternalEntity)

    assert of_machine.metadata.labels == {
        TAG: "db",
        "team": "x",
        MACHINE_LABEL: "db-1",
        SERVICE_LABEL: "db",
    }
    assert [(e.ip, e.name) for e in of_machine.spec.endpoints] == [("10.7.0.1", "db-1")]
    assert [(p.port, p.name) for p in of_machine.spec.ports] == [(5432, "sql")]
    assert [e.ip for e in of_service.spec.endpoints] == ["10.7.0.1", "10.7.0.2"]


def test_where_entities_are_not_served_none_is_wanted() -> None:
    view = seen(ours())

    assert planned(view, "db-1", "machine0") == Plan()
    assert wanted(planned(view), ExternalEntity) == []


def test_a_machine_of_a_name_that_two_kinds_share_has_an_entity_for_each() -> None:
    view = seen(ours("m"), nephes("m", "10.7.0.2", {TAG: "db"}), facts=[ENTITIES])

    [one] = wanted(planned(view, "m", "machine0"), ExternalEntity)
    [two] = wanted(planned(view, "m", "machine1"), ExternalEntity)

    assert one.metadata.name != two.metadata.name


@given(st.text(min_size=1, max_size=80))
def test_every_id_gives_a_name_that_a_service_may_have(text: str) -> None:
    assert is_service_name(dns_label(text))


@given(st.text(min_size=1, max_size=12), st.text(min_size=1, max_size=12))
def test_different_ids_give_different_names(one: str, other: str) -> None:
    assert one == other or dns_label(one) != dns_label(other)


def test_an_unknown_key_wants_nothing() -> None:
    assert FEATURE.plan(Key("machine9", "m", SHOP), seen()) == Plan()
