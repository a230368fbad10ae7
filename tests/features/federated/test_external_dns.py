"""External DNS names and address groups of federated Services."""

from typing import Any

from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.names import EXTERNAL_DNS, MANAGED_HOSTNAME
from hanse.features.federated.options import FederatedOptions
from hanse.features.federated.records import Backends
from hanse.model.facts import KindServed
from hanse.model.kinds.antrea import ClusterGroup, Group
from hanse.model.kinds.core import Service
from hanse.model.kinds.discovery import EndpointPort
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import Object
from hanse.model.plan import Plan
from tests.features.federated.builders import (
    BERGEN,
    HERE,
    OURS,
    SHOP,
    WEB,
    applied_objects,
    created_objects,
    desired,
    observed,
    plan_for,
    record,
    service_key,
    stored_configmap,
)
from tests.support.builders import annotated

HOST = f"{EXTERNAL_DNS[0]}/hostname"


def service_annotations(plan: Plan) -> dict[str, str]:
    [made] = desired(plan, Service)
    return made.metadata.annotations


def test_an_external_name_is_copied_from_the_oldest_member_that_has_one() -> None:
    view = observed(
        {
            HERE: [stored_configmap(record(HERE, "10.1.0.1"), age=9)],
            "bergen": [
                stored_configmap(record("bergen", "203.0.113.3", hostname="web.example.org"), age=5)
            ],
            "hamburg": [
                stored_configmap(
                    record("hamburg", "203.0.113.4", hostname="late.example.org"), age=1
                )
            ],
        }
    )

    annotations = service_annotations(plan_for(service_key(), view))

    for prefix in EXTERNAL_DNS:
        assert annotations[f"{prefix}/hostname"] == "web.example.org"
        assert annotations[f"{prefix}/target"] == "10.1.0.1,203.0.113.3,203.0.113.4"


def test_an_external_name_is_made_by_the_template() -> None:
    options = FederatedOptions(hostname="{name}.{namespace}.example.org")

    annotations = service_annotations(
        plan_for(service_key(), observed(OURS, options=options), options)
    )

    assert annotations[HOST] == f"web.{SYSTEM}.example.org"


def test_a_users_external_name_is_kept_and_gets_our_addresses() -> None:
    [current] = [o for o in applied_objects(observed(OURS)) if isinstance(o, Service)]
    theirs = annotated(current, {HOST: "shop.example.com"})
    options = FederatedOptions(hostname="{name}.example.org")
    view = observed({HERE: [theirs, *OURS[HERE]]})

    annotations = service_annotations(plan_for(service_key(), view, options))

    assert annotations[f"{EXTERNAL_DNS[1]}/target"] == "10.1.0.1"
    assert annotations[HOST] == "shop.example.com"
    assert annotations[f"{EXTERNAL_DNS[1]}/hostname"] == "shop.example.com", "any version reads it"
    assert MANAGED_HOSTNAME not in annotations
    changed = annotated(current, {**annotations, HOST: "new.example.com"})
    again = plan_for(service_key(), observed({HERE: [changed, *OURS[HERE]]}), options)
    assert service_annotations(again)[f"{EXTERNAL_DNS[1]}/hostname"] == "new.example.com"
    del annotations[HOST]
    taken_away = annotated(current, annotations)
    back = plan_for(service_key(), observed({HERE: [taken_away, *OURS[HERE]]}), options)
    assert service_annotations(back)[HOST] == "web.example.org"


def test_our_own_external_name_follows_the_template() -> None:
    view = observed(OURS)
    first = FederatedOptions(hostname="{name}.old.example")
    [current] = [
        o
        for o in created_objects(plan_for(service_key(), view, first), view)
        if isinstance(o, Service)
    ]

    options = FederatedOptions(hostname="{name}.new.example")
    annotations = service_annotations(
        plan_for(service_key(), observed({HERE: [current, *OURS[HERE]]}), options)
    )

    assert annotations[HOST] == annotations[MANAGED_HOSTNAME] == "web.new.example"


def kind_served(kind: type[Object], where: str = HERE) -> KindServed:
    return KindServed(where, kind.kind, served=True)


def test_where_it_is_served_a_dns_endpoint_is_written_with_each_family() -> None:
    six = Backends("b", "IPv6", (EndpointPort(port=80, name="http"),), ready=("fd00::1",))
    view = observed(
        {
            **OURS,
            "bergen": [
                stored_configmap(record("bergen", backends=(six,), hostname="web.example.org"))
            ],
        },
        facts=[kind_served(DNSEndpoint)],
    )

    [made] = desired(plan_for(service_key(), view), DNSEndpoint)

    assert [(e.dns_name, e.record_type, e.targets) for e in made.spec.endpoints] == [
        ("web.example.org", "A", ("10.1.0.1",)),
        ("web.example.org", "AAAA", ("fd00::1",)),
    ]


def test_a_host_name_is_the_target_while_a_member_has_no_address() -> None:
    named = Backends("a", "FQDN", (), ready=("lb.example.net",))
    reported = record("bergen", backends=(named,), hostname="web.example.org")

    plan = plan_for(
        service_key(),
        observed({"bergen": [stored_configmap(reported)]}, facts=[kind_served(DNSEndpoint)]),
    )

    [made] = desired(plan, DNSEndpoint)
    assert [(e.record_type, e.targets) for e in made.spec.endpoints] == [
        ("CNAME", ("lb.example.net",))
    ]


# -- groups


def groups(plan: Plan, kind: Any) -> list[tuple[str, str, list[str]]]:
    return [
        (g.metadata.namespace, g.metadata.name, [b.cidr for b in g.spec.ip_blocks])
        for g in desired(plan, kind)
    ]


def test_a_federated_service_is_a_group_where_groups_are_served() -> None:
    facts = [kind_served(ClusterGroup), kind_served(Group)]
    plan = plan_for(service_key(), observed({**OURS, **BERGEN}, facts=facts))

    blocks = ["10.1.0.1/32", "10.3.0.1/32"]
    assert groups(plan, ClusterGroup) == [("", "web", blocks)]
    assert groups(plan, Group) == [(SYSTEM, "web", blocks)]
    assert groups(plan_for(service_key(), observed(OURS)), ClusterGroup) == []


def test_the_group_of_a_namespaced_service_has_its_namespace_in_its_name() -> None:
    of = FederatedName(SHOP, "web")
    reported = {"bergen": [stored_configmap(record("bergen", "10.3.0.1", federated=of))]}
    plan = plan_for(
        service_key(of=of),
        observed(reported, facts=[kind_served(ClusterGroup), kind_served(Group)]),
    )

    assert groups(plan, ClusterGroup) == [("", "web.shop", ["10.3.0.1/32"])]
    assert groups(plan, Group) == [(SHOP, "web", ["10.3.0.1/32"])]
    assert of != WEB
