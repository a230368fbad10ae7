"""The isolation policies, evaluated: which pods reach which, with and without user policies."""

from collections.abc import Sequence

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.features.networks.isolation import IsolationInputs, isolation_policies
from hanse.features.networks.names import DNS, NETWORK, TENANT, NetworkName
from hanse.features.networks.reachability import (
    OUTSIDE,
    is_allowed,
    reachability_matrix,
)
from hanse.features.networks.traffic import TrafficEndpoint, TrafficPort
from hanse.model.kinds.core import Namespace, Pod
from hanse.model.kinds.networking import (
    LabelRequirement,
    LabelSelector,
    NetworkPolicy,
)
from hanse.model.objects import Meta

SPACES = {"acme-web": "acme", "acme-db": "acme", "acme-kube-system": "acme", "bolt-web": "bolt"}
NETWORKS = {"acme": ("default", "lab"), "bolt": ("default",)}
API = ("172.18.0.2", 6443)


def written(
    users: Sequence[NetworkPolicy] = (),
    peers: tuple[tuple[str, str, NetworkName], ...] = (),
    *,
    shared_dns: bool = False,
) -> list[NetworkPolicy]:
    """All policies of both tenants."""
    return [
        policy
        for space, tenant in SPACES.items()
        for policy in isolation_policies(
            space,
            IsolationInputs(
                tenant=tenant,
                networks=NETWORKS[tenant],
                apiservers=(API,),
                peers=tuple((mine, other) for of, mine, other in peers if of == tenant),
                shared_dns=shared_dns,
            ),
        )
    ] + list(users)


def spot(space: str, network: str | None = None, **labels: str) -> TrafficEndpoint:
    tenant = SPACES.get(space, "")
    marks = {**labels, **({NETWORK: network} if network else {})}
    around = {"kubernetes.io/metadata.name": space, **({TENANT: tenant} if tenant else {})}
    return TrafficEndpoint("pod", space, marks, around, ("10.9.9.9",))


def reaches(
    one: TrafficEndpoint, other: TrafficEndpoint, policies: Sequence[NetworkPolicy], port: int = 80
) -> bool:
    return is_allowed(one, other, TrafficPort(port), policies)


def user_policy(text: str, space: str = "acme-web", name: str = "mine") -> NetworkPolicy:
    wire = {"metadata": {"name": name, "namespace": space}, "spec": yaml.safe_load(text)}
    return msgspec.convert(wire, NetworkPolicy)


def test_pods_of_one_network_reach_each_other_in_all_namespaces_of_the_tenant() -> None:
    policies = written()

    assert reaches(spot("acme-web", "lab"), spot("acme-db", "lab"), policies)
    assert reaches(spot("acme-web", "default"), spot("acme-db"), policies)
    assert reaches(spot("acme-web"), spot("acme-db", "default"), policies)


def test_pods_of_different_networks_do_not() -> None:
    policies = written()

    assert not reaches(spot("acme-web", "lab"), spot("acme-web", "default"), policies)
    assert not reaches(spot("acme-web"), spot("acme-db", "lab"), policies)
    assert not reaches(spot("bolt-web", "default"), spot("acme-web", "default"), policies)
    assert not reaches(spot("acme-web", "default"), spot("bolt-web", "default"), policies)


def test_nobody_outside_comes_in_and_nobody_inside_gets_out() -> None:
    policies, plain = written(), spot("plain", app="x")

    assert not reaches(plain, spot("acme-web", "lab"), policies)
    assert not reaches(spot("acme-web", "lab"), plain, policies)


def test_a_label_forged_in_another_tenants_namespace_opens_nothing() -> None:
    policies = written()
    forged = spot("bolt-web", "lab", **{TENANT: "acme"})

    assert not reaches(forged, spot("acme-web", "lab"), policies)


def test_dns_and_the_api_server_are_reached_and_nothing_else_of_theirs() -> None:
    policies = written()
    dns = spot("acme-kube-system", "lab", **{DNS: "lab", TENANT: "acme"})
    api = TrafficEndpoint("api", addresses=(API[0],))
    pod = spot("acme-web", "lab")

    assert is_allowed(pod, dns, TrafficPort(53, "UDP"), policies)
    assert is_allowed(pod, api, TrafficPort(API[1]), policies)
    assert not is_allowed(pod, api, TrafficPort(22), policies)
    assert not is_allowed(spot("acme-web", "default"), dns, TrafficPort(53, "UDP"), policies)
    assert is_allowed(dns, api, TrafficPort(API[1]), policies)


@pytest.mark.parametrize("shared", [True, False])
def test_the_shared_dns_server_is_asked_where_networks_share_it_and_nothing_else(
    shared: bool,
) -> None:
    policies = written(shared_dns=shared)
    server = spot("hanse-system", **{"app.kubernetes.io/name": "hanse-network-dns"})
    others = (
        spot("hanse-system", **{"app.kubernetes.io/name": "hanse-agent"}),
        spot("plain", **{"app.kubernetes.io/name": "hanse-network-dns"}),
    )
    pod = spot("acme-web", "lab")

    for protocol in ("UDP", "TCP"):
        assert is_allowed(pod, server, TrafficPort(53, protocol), policies) == shared
        assert not any(is_allowed(pod, o, TrafficPort(53, protocol), policies) for o in others)
    assert not is_allowed(pod, server, TrafficPort(8080), policies)
    assert not is_allowed(server, pod, TrafficPort(53, "UDP"), policies)


def test_policies_of_users_cannot_narrow_where_no_guard_isolates() -> None:
    """Policies only add up: isolation wins."""
    law = user_policy("{podSelector: {}, policyTypes: [Ingress, Egress]}")
    dns = spot("acme-kube-system", "lab", **{DNS: "lab", TENANT: "acme"})
    pod = spot("acme-web", "lab")

    assert reaches(pod, spot("acme-db", "lab"), written([law]))
    assert is_allowed(pod, dns, TrafficPort(53, "UDP"), written([law]))


def test_no_two_policies_of_a_namespace_have_one_name() -> None:
    """A network may be named as parts of other names are."""
    networks = ("default", "default-unnamed", "unlabelled", "dns", "lab-in", "lab")
    inputs = IsolationInputs(tenant="acme", networks=networks)

    names = [p.metadata.name for p in isolation_policies("acme-kube-system", inputs)]

    assert len(set(names)) == len(names) == 2 * len(networks) + 2


def test_peered_networks_reach_each_other_and_no_others() -> None:
    lab, bolt = NetworkName("acme", "lab"), NetworkName("bolt", "default")
    policies = written(peers=(("acme", "lab", bolt), ("bolt", "default", lab)))

    assert reaches(spot("acme-web", "lab"), spot("bolt-web", "default"), policies)
    assert reaches(spot("bolt-web", "default"), spot("acme-db", "lab"), policies)
    assert not reaches(spot("acme-web", "default"), spot("bolt-web", "default"), policies)


def test_one_sided_peering_opens_nothing() -> None:
    policies = written(peers=(("acme", "lab", NetworkName("bolt", "default")),))

    assert not reaches(spot("acme-web", "lab"), spot("bolt-web", "default"), policies)
    assert not reaches(spot("bolt-web", "default"), spot("acme-web", "lab"), policies)


def test_the_matrix_shows_each_network_by_itself() -> None:
    spaces = [
        Namespace(metadata=Meta(name=name, labels={TENANT: tenant}))
        for name, tenant in SPACES.items()
    ]
    spaces.append(Namespace(metadata=Meta(name="plain")))
    pods = [
        Pod(metadata=Meta(name="a", namespace="plain")),
        Pod(metadata=Meta(name="b", namespace="acme-web", labels={NETWORK: "lab"})),
    ]
    names = [NetworkName(t, n) for t, several in NETWORKS.items() for n in several]

    whole = reachability_matrix(spaces, pods, written(), names)

    assert whole.names == ("acme.default", "acme.lab", "bolt.default", OUTSIDE)
    assert whole.reach[("acme.lab", "acme.lab")] == "all"
    assert whole.leaks() == []
    assert whole.reach[(OUTSIDE, "acme.lab")] == "none"


def test_the_matrix_finds_a_hole_that_somebody_made() -> None:
    hole = user_policy("{podSelector: {}, ingress: [{}], egress: [{}]}", "acme-web")
    other = user_policy("{podSelector: {}, ingress: [{}], egress: [{}]}", "bolt-web")
    spaces = [Namespace(metadata=Meta(name=n, labels={TENANT: t})) for n, t in SPACES.items()]
    names = [NetworkName("acme", "lab"), NetworkName("bolt", "default")]

    whole = reachability_matrix(spaces, [], [*written([hole, other])], names)

    assert ("acme.lab", "bolt.default") in whole.leaks()


def test_the_matrix_tries_the_ports_that_policies_name() -> None:
    """Two tenants that each allow all addresses on one port."""
    block = "{ipBlock: {cidr: 0.0.0.0/0}}"
    rule = f"[{{from: [{block}], ports: [{{port: 81}}]}}]"
    out = f"[{{to: [{block}], ports: [{{port: 81}}]}}]"
    text = f"{{podSelector: {{}}, policyTypes: [Ingress, Egress], ingress: {rule}, egress: {out}}}"
    users = [user_policy(text, space) for space in ("acme-web", "bolt-web")]
    spaces = [Namespace(metadata=Meta(name=n, labels={TENANT: t})) for n, t in SPACES.items()]
    names = [NetworkName("acme", "default"), NetworkName("bolt", "default")]

    whole = reachability_matrix(spaces, [], written(users), names)

    assert whole.reach["acme.default", "bolt.default"] == "some"


KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)
REQUIREMENTS = st.one_of(
    st.builds(
        LabelRequirement,
        key=KEYS,
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(VALUES, min_size=1, max_size=2, unique=True).map(tuple),
    ),
    st.builds(LabelRequirement, key=KEYS, operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
SELECTORS = st.builds(
    LabelSelector,
    match_labels=st.dictionaries(KEYS, VALUES, max_size=2),
    match_expressions=st.lists(REQUIREMENTS, max_size=2).map(tuple),
)


@given(
    st.lists(st.tuples(st.sampled_from(list(SPACES)), SELECTORS), max_size=3),
    st.sampled_from(list(SPACES)),
    st.sampled_from(list(SPACES)),
    st.sampled_from(["default", "lab", None]),
    st.sampled_from(["default", "lab", None]),
    LABELS,
    LABELS,
)
@settings(max_examples=60, deadline=None)
def test_whatever_users_policies_allow_no_network_ever_reaches_another(
    narrowing: list[tuple[str, LabelSelector]],
    space: str,
    other_space: str,
    network: str | None,
    other_network: str | None,
    labels: dict[str, str],
    other_labels: dict[str, str],
) -> None:
    users = []
    for at, (where, selector) in enumerate(narrowing):
        law = user_policy("{podSelector: {}, policyTypes: [Ingress, Egress]}", where, f"u{at}")
        users.append(
            msgspec.structs.replace(
                law, spec=msgspec.structs.replace(law.spec, pod_selector=selector)
            )
        )
    one = spot(space, network, **labels)
    other = spot(other_space, other_network, **other_labels)

    here = (SPACES[space], network or "default")
    there = (SPACES[other_space], other_network or "default")
    same = here == there and here[1] in NETWORKS[here[0]]

    assert reaches(one, other, written(users)) == same
