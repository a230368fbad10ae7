"""Allocation and release of cluster IPs and node ports."""

import pytest

from tests.tinykube.api_client import SERVICES, Cluster, service

ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"


async def test_a_service_gets_an_address_that_is_held_by_an_object() -> None:
    cluster = Cluster(service_range="10.7.0.0/24")

    made = await cluster.create(SERVICES, service("s"))

    spec = made["spec"]
    assert spec["clusterIP"].startswith("10.7.0.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["ipFamilies"] == ["IPv4"]
    assert spec["ipFamilyPolicy"] == "SingleStack"
    holder = await cluster.get(f"{ADDRESSES}/{spec['clusterIP']}")
    assert holder["spec"]["parentRef"] == {
        "resource": "services",
        "namespace": "default",
        "name": "s",
    }


async def test_an_address_is_given_back_with_its_service() -> None:
    cluster = Cluster()
    made = await cluster.create(SERVICES, service("s", type="NodePort"))

    await cluster.send("DELETE", f"{SERVICES}/s")
    again = await cluster.create(
        SERVICES,
        service(
            "t",
            type="NodePort",
            clusterIP=made["spec"]["clusterIP"],
            ports=made["spec"]["ports"],
        ),
    )

    assert again["spec"]["clusterIP"] == made["spec"]["clusterIP"]
    assert again["spec"]["ports"] == made["spec"]["ports"]
    assert len(await cluster.names(ADDRESSES)) == 2


async def test_a_range_is_used_to_its_end_and_then_full() -> None:
    cluster = Cluster(service_range="10.7.0.0/29")

    made = [await cluster.create(SERVICES, service(f"s{at}")) for at in range(5)]
    full = await cluster.send("POST", SERVICES, service("one-more"))

    assert len({one["spec"]["clusterIP"] for one in made}) == 5
    assert full.status == 500
    assert "range is full" in full.message


async def test_another_range_can_be_added() -> None:
    cluster = Cluster(service_range="10.7.0.0/30")
    await cluster.create(SERVICES, service("a"))
    more = {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.8.0.0/24"]}}
    await cluster.create("/apis/networking.k8s.io/v1/servicecidrs", more)

    made = await cluster.create(SERVICES, service("b"))

    assert made["spec"]["clusterIP"].startswith("10.8.0.")


async def test_two_families_where_the_ranges_say_so() -> None:
    cluster = Cluster(service_range="10.7.0.0/24,fd00::/112")

    both = await cluster.create(SERVICES, service("b", ipFamilyPolicy="PreferDualStack"))
    other = await cluster.create(SERVICES, service("o", ipFamilies=["IPv6"]))

    assert both["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    assert len(both["spec"]["clusterIPs"]) == 2
    assert other["spec"]["clusterIP"].startswith("fd00::")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"clusterIP": "10.0.0.1"}, "provided IP is already allocated"),
        ({"clusterIP": "192.168.1.1"}, "the provided network does not match the current range"),
        ({"clusterIP": "10.0.0.0"}, "is not in the valid range"),
        ({"clusterIP": "10.0.255.255"}, "The range of valid IPs is 10.0.0.0/16"),
        ({"clusterIP": "x"}, "must be a valid IP address"),
        ({"ipFamilyPolicy": "RequireDualStack"}, "not configured for dual-stack services"),
        ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]}, "30000-32767"),
        ({"ports": [{"port": 1, "nodePort": 30000}]}, "may not be used when `type` is 'ClusterIP'"),
        ({"ports": []}, "spec.ports: Required value"),
        ({"ports": [{"port": 0}]}, "must be between 1 and 65535, inclusive"),
        ({"ports": [{"port": 1}, {"port": 2}]}, "spec.ports[0].name: Required value"),
        ({"type": "Tunnel"}, 'spec.type: Unsupported value: "Tunnel"'),
        ({"type": "ExternalName"}, "spec.externalName: Required value"),
        ({"type": "LoadBalancer", "clusterIP": "None"}, "for LoadBalancer services"),
    ],
)
async def test_services_that_cannot_be_are_refused_and_hold_nothing(
    spec: dict[str, object], message: str
) -> None:
    cluster = Cluster()
    before = cluster.api.storage.version

    answer = await cluster.send("POST", SERVICES, service("s", **spec))

    assert answer.status == 422
    assert message in answer.message
    assert cluster.api.storage.version == before


async def test_an_address_stays_once_it_is_given() -> None:
    cluster = Cluster()
    made = await cluster.create(SERVICES, service("s", type="NodePort"))

    kept = await cluster.send("PUT", f"{SERVICES}/s", service("s", type="NodePort"))
    moved = await cluster.send(
        "PATCH",
        f"{SERVICES}/s",
        {"spec": {"clusterIP": "10.0.9.9"}},
        kind="application/merge-patch+json",
    )

    assert kept.body["spec"] == made["spec"]
    assert moved.status == 422
    assert "may not change once set" in moved.message


async def test_a_type_takes_and_leaves_what_it_needs() -> None:
    cluster = Cluster()
    await cluster.create(SERVICES, service("s"))
    path = f"{SERVICES}/s"

    balanced = await cluster.merge(
        path, {"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}}
    )
    plain = await cluster.merge(path, {"spec": {"type": "ClusterIP"}})
    named = await cluster.merge(path, {"spec": {"type": "ExternalName", "externalName": "a.b"}})

    assert balanced["spec"]["ports"][0]["nodePort"] >= 30000
    assert balanced["spec"]["healthCheckNodePort"] >= 30000
    assert "nodePort" not in plain["spec"]["ports"][0]
    assert "healthCheckNodePort" not in plain["spec"]
    assert "clusterIP" not in named["spec"]
    assert len(await cluster.names(ADDRESSES)) == 1


async def test_a_health_check_port_stays_while_it_is_needed() -> None:
    cluster = Cluster()
    balancer = service("s", type="LoadBalancer", externalTrafficPolicy="Local")
    made = await cluster.create(SERVICES, balancer)

    kept = await cluster.send("PUT", f"{SERVICES}/s", balancer)
    everywhere = await cluster.merge(
        f"{SERVICES}/s", {"spec": {"externalTrafficPolicy": "Cluster"}}
    )

    assert kept.body["spec"]["healthCheckNodePort"] == made["spec"]["healthCheckNodePort"]
    assert "healthCheckNodePort" not in everywhere["spec"]


async def test_headless_services_have_no_address() -> None:
    cluster = Cluster()

    chosen = await cluster.create(SERVICES, service("s", clusterIP="None", selector={"a": "b"}))
    empty = await cluster.create(SERVICES, service("t", clusterIP="None"))

    assert chosen["spec"]["clusterIPs"] == ["None"]
    assert chosen["spec"]["ipFamilyPolicy"] == "SingleStack"
    assert empty["spec"]["ipFamilyPolicy"] == "RequireDualStack"


async def test_a_dry_run_takes_no_address() -> None:
    cluster = Cluster()
    before = cluster.api.storage.version

    made = await cluster.create(SERVICES, service("s"), dryRun="All")

    assert made["spec"]["clusterIP"]
    assert cluster.api.storage.version == before


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("169.254.1.1", "may not be in the link-local range"),
        ("224.0.0.1", "may not be in the link-local multicast range"),
        ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("fd00::1", "must be an IPv4 address"),
        ("nowhere", "must be a valid IP address"),
    ],
)
async def test_slices_take_only_real_addresses(address: str, message: str) -> None:
    found = {
        "metadata": {"name": "s"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": [{"port": 80}],
    }

    answer = await Cluster().send(
        "POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", found
    )

    assert answer.status == 422
    assert message in answer.message
