"""VM Services and ExternalEntities of machines of all kinds."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.machines.entities import valid_labels
from hanse.features.machines.machine import dns_label
from hanse.features.machines.names import MACHINE_LABEL, SERVICE_LABEL, VM_SERVICE
from hanse.model.facts import WriteOutcome
from hanse.model.internal_addresses import INTERNAL_FROM
from hanse.model.kinds.antrea import ExternalEntity
from hanse.model.kinds.core import Service, ServicePort, ServiceSpec
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import (
    InterfaceAddress,
    MachineInterface,
    VirtualMachine,
    VirtualMachineStatus,
)
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
    cloud_machine,
    desired,
    observed,
    plan_for,
    virtual_machine,
    virtual_machine_instance,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH


def addresses(plan: Plan) -> list[str]:
    slices = desired(plan, EndpointSlice)
    return [a for s in slices for e in s.endpoints or () for a in e.addresses]


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(virtual_machine("m", "10.7.0.1"), id="ours"),
        pytest.param(cloud_machine("m", "10.7.0.1", {TAG: "db"}), id="nephe"),
        pytest.param(
            virtual_machine_instance("m", "10.7.0.1", labels={TAG: "db"}), id="KubeVirt, label"
        ),
        pytest.param(
            virtual_machine_instance("m", "10.7.0.1", annotations={TAG: "db"}), id="KubeVirt too"
        ),
        pytest.param(
            virtual_machine("m", tags={"svc.antreaplus.vmware-tanzu.com": "db"}), id="as tanzu"
        ),
        pytest.param(
            virtual_machine("m", tags={"svc.antreaplus.tanzu-vmware.com": "db"}), id="turned round"
        ),
        pytest.param(
            virtual_machine("m", tags={"svc.antreaplus.vmware-tanzue.com": "db"}), id="misspelled"
        ),
    ],
)
def test_a_tagged_machine_is_a_service(machine: Object) -> None:
    plan = plan_for(observed(machine))

    [service] = desired(plan, Service)
    assert VM_SERVICE in service.metadata.annotations
    assert service.headless
    [endpoint_slice] = desired(plan, EndpointSlice)
    assert endpoint_slice.metadata.labels["kubernetes.io/service-name"] == "db"
    assert addresses(plan) == ["10.7.0.1"]
    assert [e.hostname for e in endpoint_slice.endpoints or ()] == [dns_label("m")]


@pytest.mark.parametrize(
    ("machine", "reported"),
    [
        pytest.param(virtual_machine(external="203.0.113.5"), ["203.0.113.5"], id="external first"),
        pytest.param(
            virtual_machine(external="203.0.113.5", tags={TAG: "db", INTERNAL_FROM: HERE}),
            ["10.7.0.1"],
            id="internal where this cluster is on its network",
        ),
        pytest.param(
            virtual_machine(external="203.0.113.5", tags={TAG: "db", INTERNAL_FROM: "bergen"}),
            ["203.0.113.5"],
            id="external where only others are",
        ),
        pytest.param(
            virtual_machine(external="fd00::5", tags={TAG: "db", INTERNAL_FROM: HERE}),
            ["10.7.0.1", "fd00::5"],
            id="an internal address of another family",
        ),
        pytest.param(virtual_machine(internal="fd00::5"), ["fd00::5"], id="IPv6"),
        pytest.param(virtual_machine(external="fd00::5"), ["10.7.0.1", "fd00::5"], id="2"),
        pytest.param(virtual_machine(internal="127.0.0.1"), [], id="loopback is none"),
        pytest.param(virtual_machine(state="stopped"), [], id="stopped"),
        pytest.param(virtual_machine(state="Running"), ["10.7.0.1"], id="running, in capitals"),
        pytest.param(
            virtual_machine_instance("m", "10.7.0.1", "Pending", labels={TAG: "db"}),
            [],
            id="pending",
        ),
    ],
)
def test_the_address_of_a_machine(machine: Object, reported: list[str]) -> None:
    assert addresses(plan_for(observed(machine))) == reported


def test_machines_of_all_kinds_share_a_service_and_its_ports_are_joined() -> None:
    view = observed(
        virtual_machine("a", "10.7.0.1", tags={TAG: "db", PORTS: "sql:5432"}),
        cloud_machine("b", "10.7.0.2", {TAG: "db", PORTS: "sql:5432/TCP,9100/TCP"}),
        virtual_machine_instance("c", "10.7.0.3", annotations={TAG: "db", PORTS: "sql:5432/UDP"}),
    )

    plan = plan_for(view)

    [service] = desired(plan, Service)
    assert [(p.name, p.port, p.protocol) for p in service.spec.ports] == [
        ("sql", 5432, "TCP"),
        ("udp-5432", 5432, "UDP"),
        ("tcp-9100", 9100, "TCP"),
    ]
    assert not service.headless
    assert {
        e.addresses[0]: [(p.name, p.port, p.protocol) for p in s.ports or ()]
        for s in desired(plan, EndpointSlice)
        for e in s.endpoints or ()
    } == {
        "10.7.0.1": [("sql", 5432, "TCP")],
        "10.7.0.2": [("sql", 5432, "TCP"), ("tcp-9100", 9100, "TCP")],
        "10.7.0.3": [("udp-5432", 5432, "UDP")],
    }, "each is asked at the ports that it serves"


def test_the_service_stays_without_endpoints_until_the_last_machine_is_gone() -> None:
    assert desired(plan_for(observed(virtual_machine(state="stopped"))), Service)
    assert plan_for(observed()) == Plan()


def test_a_machine_without_a_name_is_called_by_its_id() -> None:
    machine = virtual_machine(tags={TAG: ""}, id_="i-0A1b")
    [key] = [
        k
        for k in FEATURE.keys_for(ObjectChange(HERE, None, machine), observed(machine))
        if k.topic == "service"
    ]

    assert key.name.startswith("i-0a1b-")
    [service] = desired(FEATURE.plan(key, observed(machine)), Service)
    assert service.metadata.name == key.name


def test_federation_tags_are_carried_over_to_the_service() -> None:
    mark = "svc.global.federated.antreaplus.vmware.com"
    plan = plan_for(observed(virtual_machine(tags={TAG: "db", mark: "all-db", "team": "x"})))

    [service] = desired(plan, Service)
    assert service.metadata.annotations == {VM_SERVICE: "true", mark: "all-db"}


def test_a_service_that_must_lose_or_get_its_address_is_recreated() -> None:
    headless = stored(
        Service(
            metadata=Meta(name="db", namespace=SHOP, annotations={VM_SERVICE: "true"}),
            spec=ServiceSpec(cluster_ip="None"),
        )
    )

    assert (
        plan_for(observed(headless, virtual_machine(tags={TAG: "db", PORTS: "80"}))).desired == ()
    )
    assert plan_for(observed(headless, virtual_machine())).desired != ()


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

    plan = plan_for(observed(foreign, virtual_machine(), facts=[taken]))

    reported = {
        p.target.ref.kind.name: [
            (c["type"], c["status"], c["reason"]) for c in p.change["status"]["conditions"]
        ]
        for p in plan.patches
    }
    assert reported == {
        "VirtualMachine": [("Served", "False", "NameTaken")],
        "Service": [("MachineNameFree", "False", "NameTaken")],
    }
    assert {n.reason for n in plan.events} == {"NameTaken"}

    [current] = [
        replace(virtual_machine(), status=msgspec.convert(p.change["status"], VirtualMachineStatus))
        for p in plan.patches
        if p.target.ref.kind == VirtualMachine.kind
    ]
    restarted, empty = plan_for(observed(foreign, current)), plan_for(observed(current))
    assert "Served" not in [n.reason for n in (*restarted.events, *empty.events)]
    assert [p for p in empty.patches if p.target.ref.kind == VirtualMachine.kind] == []
    assert {c["status"] for p in restarted.patches for c in p.change["status"]["conditions"]} == {
        "False"
    }


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        pytest.param({TAG: "Not_a_name"}, f"tag {TAG}: 'Not_a_name' cannot be", id="name"),
        pytest.param(
            {TAG: "db", PORTS: "http:eighty"}, f"tag {PORTS}: 'http:eighty' is", id="port"
        ),
        pytest.param({TAG: "db", PORTS: "http:99999"}, "'http:99999' is not like", id="number"),
        pytest.param({TAG: "db", PORTS: "80/ICMP"}, "'80/ICMP' is not like", id="protocol"),
        pytest.param(
            {TAG: "db", INTERNAL_FROM: "here, There"},
            "'here, There' is not a list of clusters",
            id="clusters",
        ),
    ],
)
def test_a_bad_tag_is_reported_on_the_machine(tags: dict[str, str], message: str) -> None:
    machine = virtual_machine(tags=tags)
    view = observed(machine)

    plans = [
        FEATURE.plan(k, view) for k in FEATURE.keys_for(ObjectChange(HERE, None, machine), view)
    ]

    reported = [c for plan in plans for p in plan.patches for c in p.change["status"]["conditions"]]
    assert [c["reason"] for c in reported] == ["InvalidTag"]
    assert message in reported[0]["message"]


@pytest.mark.parametrize(
    "address", ["", "300.1.1.1", "127.0.0.1", "::ffff:10.0.0.1", "2001:db8::1%eth0"]
)
def test_a_machine_without_an_address_is_reported_and_blocks_no_other(address: str) -> None:
    plan = plan_for(observed(virtual_machine("bad", address), virtual_machine("good", "10.7.0.2")))

    assert addresses(plan) == ["10.7.0.2"]
    [notice] = plan.events
    assert (notice.target.ref.name, notice.reason) == ("bad", "NoAddress")


def test_a_machine_that_does_not_run_needs_no_address() -> None:
    assert plan_for(observed(virtual_machine("off", "", state="stopped"))).events == ()


def test_each_machine_and_each_service_has_an_entity() -> None:
    machine = virtual_machine(tags={TAG: "db", PORTS: "sql:5432", "team": "x", "bad key!": "y"})
    view = observed(machine, virtual_machine("db-2", "10.7.0.2"), facts=[ENTITIES])

    [of_machine] = desired(plan_for(view, "db-1", "machine0"), ExternalEntity)
    [of_service] = desired(plan_for(view), ExternalEntity)

    assert of_machine.metadata.labels == {
        TAG: "db",
        "team": "x",
        MACHINE_LABEL: "db-1",
        SERVICE_LABEL: "db",
    }
    assert [(e.ip, e.name) for e in of_machine.spec.endpoints] == [("10.7.0.1", "db-1")]
    assert [(p.port, p.name) for p in of_machine.spec.ports] == [(5432, "sql")]
    assert [e.ip for e in of_service.spec.endpoints] == ["10.7.0.1", "10.7.0.2"]


def test_an_entity_has_the_addresses_of_all_interfaces() -> None:
    machine = virtual_machine()
    inside = InterfaceAddress(address="10.9.0.1", address_type="InternalIP")
    outside = InterfaceAddress(address="192.0.2.7", address_type="ExternalIP")
    interface = MachineInterface(name="eth1", ips=(inside, outside))
    spec = replace(machine.spec, network_interfaces=(*machine.spec.network_interfaces, interface))
    view = observed(replace(machine, spec=spec), facts=[ENTITIES])

    [entity] = desired(plan_for(view, "db-1", "machine0"), ExternalEntity)

    assert [e.ip for e in entity.spec.endpoints] == ["10.7.0.1", "10.9.0.1", "192.0.2.7"]
    assert addresses(plan_for(view)) == ["192.0.2.7"], "it is reached by one"


def test_where_entities_are_not_served_none_is_wanted() -> None:
    view = observed(virtual_machine())

    assert plan_for(view, "db-1", "machine0") == Plan()
    assert desired(plan_for(view), ExternalEntity) == []


def test_a_machine_of_a_name_that_two_kinds_share_has_an_entity_for_each() -> None:
    view = observed(
        virtual_machine("m"), cloud_machine("m", "10.7.0.2", {TAG: "db"}), facts=[ENTITIES]
    )

    [one] = desired(plan_for(view, "m", "machine0"), ExternalEntity)
    [two] = desired(plan_for(view, "m", "machine1"), ExternalEntity)

    assert one.metadata.name != two.metadata.name


@given(st.text(min_size=1, max_size=80))
def test_every_id_gives_a_name_that_a_service_may_have(text: str) -> None:
    assert is_service_name(dns_label(text))


@given(st.text(min_size=1, max_size=12), st.text(min_size=1, max_size=12))
def test_different_ids_give_different_names(one: str, other: str) -> None:
    assert one == other or dns_label(one) != dns_label(other)


def test_an_unknown_key_wants_nothing() -> None:
    assert FEATURE.plan(Key("machine9", "m", SHOP), observed()) == Plan()


def test_tags_of_our_domain_alone_are_reserved() -> None:
    tags = {"hanse.dev/a": "1", "machines.hanse.dev/b": "2", "nothanse.dev/c": "3", "d": "4"}

    assert valid_labels(tags) == {"nothanse.dev/c": "3", "d": "4"}
