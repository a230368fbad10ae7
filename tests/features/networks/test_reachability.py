"""The evaluation of NetworkPolicies, one rule of the specification each."""

from typing import Any

import msgspec
import pytest
import yaml
from msgspec import structs

from hanse.features.networks.admin_reachability import unevaluated_ports
from hanse.features.networks.antrea_reachability import antrea_rules, unevaluated
from hanse.features.networks.isolation import cluster_network_policies
from hanse.features.networks.names import NETWORK, TENANT, NetworkName
from hanse.features.networks.reachability import is_allowed, reachability_matrix
from hanse.features.networks.traffic import TrafficEndpoint, TrafficPort
from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy, Tier
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.networking import IngressPolicyRule, NetworkPolicy, NetworkPolicySpec
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.objects import Meta


def policy(text: str, namespace: str = "shop", name: str = "p") -> NetworkPolicy:
    wire = {"metadata": {"name": name, "namespace": namespace}, "spec": yaml.safe_load(text)}
    return msgspec.convert(wire, NetworkPolicy)


def pod(name: str, namespace: str = "shop", ip: str = "10.0.0.1", **labels: str) -> TrafficEndpoint:
    spaces = {"team": namespace, "kubernetes.io/metadata.name": namespace}
    ports = {("http", "TCP"): 8080, ("metrics", "TCP"): 9090}
    return TrafficEndpoint(name, namespace, labels, spaces, (ip,), ports)


WEB = pod("web", app="web")
DB = pod("db", app="db", ip="10.0.0.2")
FAR = pod("far", namespace="other", app="web", ip="10.0.1.1")
WORLD = TrafficEndpoint("world", addresses=("203.0.113.9",))


def reaches(
    one: TrafficEndpoint, other: TrafficEndpoint, *policies: NetworkPolicy, port: int = 8080
) -> bool:
    return is_allowed(one, other, TrafficPort(port), policies)


def test_without_policies_everybody_reaches_everybody() -> None:
    assert reaches(WEB, DB)
    assert reaches(FAR, DB)
    assert reaches(WORLD, DB)
    assert reaches(DB, WORLD)


@pytest.mark.parametrize(
    ("text", "web", "far", "world"),
    [
        pytest.param("podSelector: {}", False, False, False, id="no rules: nothing comes in"),
        pytest.param(
            "{podSelector: {}, ingress: [{}]}", True, True, True, id="an empty rule: everybody"
        ),
        pytest.param(
            "{podSelector: {}, ingress: []}", False, False, False, id="an empty list: nobody"
        ),
        pytest.param(
            "{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}",
            True,
            False,
            False,
            id="a pod selector alone: pods of the policy's own namespace",
        ),
        pytest.param(
            "{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}",
            True,
            True,
            False,
            id="an empty namespace selector: pods of all namespaces, and nobody outside",
        ),
        pytest.param(
            "{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: other}},"
            " podSelector: {matchLabels: {app: db}}}]}]}",
            False,
            False,
            False,
            id="two selectors in one peer: both must match",
        ),
        pytest.param(
            "{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: other}}},"
            " {podSelector: {matchLabels: {app: web}}}]}]}",
            True,
            True,
            False,
            id="two peers: either will do",
        ),
        pytest.param(
            "{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0,"
            " except: [10.0.0.0/8]}}]}]}",
            False,
            False,
            True,
            id="an address block with a hole",
        ),
        pytest.param(
            "{podSelector: {matchLabels: {app: web}}}",
            True,
            True,
            True,
            id="who is not selected is not limited",
        ),
        pytest.param(
            "{podSelector: {}, policyTypes: [Egress]}",
            False,
            True,
            True,
            id="egress alone: what comes in from elsewhere is not limited",
        ),
    ],
)
def test_who_may_come_in(text: str, web: bool, far: bool, world: bool) -> None:
    law = policy(text)

    assert [reaches(one, DB, law) for one in (WEB, FAR, WORLD)] == [web, far, world]


def test_policy_types_default_to_ingress_and_to_egress_where_there_are_such_rules() -> None:
    only_in = policy("{podSelector: {matchLabels: {app: web}}}")
    with_out = policy(
        "{podSelector: {matchLabels: {app: web}}, egress: [{to: [{podSelector: {}}]}]}"
    )

    assert reaches(WEB, FAR, only_in)
    assert not reaches(WEB, FAR, with_out)
    assert reaches(WEB, DB, with_out)
    assert not reaches(DB, WEB, with_out)


def test_policies_add_up() -> None:
    deny = policy("podSelector: {}", name="deny")
    allow = policy(
        "{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}"
    )

    assert reaches(WEB, DB, deny, allow)
    assert reaches(WEB, DB, allow, deny)
    assert not reaches(FAR, DB, deny, allow)


def test_both_ends_must_agree() -> None:
    no_way_out = policy("{podSelector: {matchLabels: {app: web}}, policyTypes: [Egress]}")
    welcome = policy("{podSelector: {}, ingress: [{}]}", name="welcome")

    assert not reaches(WEB, DB, no_way_out, welcome)
    assert reaches(FAR, DB, no_way_out, welcome)


def test_a_policy_is_about_its_own_namespace() -> None:
    assert reaches(WEB, DB, policy("podSelector: {}", namespace="other"))


@pytest.mark.parametrize(
    ("ports", "traffic_port", "open_"),
    [
        pytest.param("[{port: 8080}]", TrafficPort(8080), True, id="a number"),
        pytest.param("[{port: 8080}]", TrafficPort(8080, "UDP"), False, id="TCP unless told"),
        pytest.param(
            "[{protocol: UDP}]", TrafficPort(1, "UDP"), True, id="a protocol alone: any port"
        ),
        pytest.param(
            "[{port: 8000, endPort: 8100}]", TrafficPort(8100), True, id="the end of a range"
        ),
        pytest.param("[{port: 8000, endPort: 8100}]", TrafficPort(8101), False, id="past a range"),
        pytest.param("[{port: http}]", TrafficPort(8080), True, id="a name as the target has it"),
        pytest.param("[{port: http}]", TrafficPort(9090), False, id="another port than the name's"),
        pytest.param(
            "[{port: admin}]", TrafficPort(8080), False, id="a name that the target lacks"
        ),
        pytest.param("[]", TrafficPort(1, "SCTP"), True, id="no ports: all"),
        pytest.param("[{port: 1}, {port: 2}]", TrafficPort(2), True, id="either port"),
    ],
)
def test_which_ports_are_open(ports: str, traffic_port: TrafficPort, open_: bool) -> None:
    law = policy(f"{{podSelector: {{}}, ingress: [{{ports: {ports}}}]}}")

    assert is_allowed(WEB, DB, traffic_port, [law]) is open_


@pytest.mark.parametrize(
    ("expression", "web", "db"),
    [
        ("{key: app, operator: In, values: [web, x]}", True, False),
        ("{key: app, operator: NotIn, values: [web]}", False, True),
        ("{key: tier, operator: NotIn, values: [web]}", True, True),
        ("{key: app, operator: Exists}", True, True),
        ("{key: tier, operator: DoesNotExist}", True, True),
        ("{key: app, operator: DoesNotExist}", False, False),
    ],
)
def test_expressions_select_as_published(expression: str, web: bool, db: bool) -> None:
    law = policy(f"{{podSelector: {{matchExpressions: [{expression}]}}, policyTypes: [Ingress]}}")

    limited = [not reaches(FAR, one, law) for one in (WEB, DB)]

    assert limited == [web, db]


def test_the_samples_of_the_seed_would_allow_everything() -> None:
    seed = policy(
        "{podSelector: {}, ingress: [{from: [{namespaceSelector: {}},"
        " {podSelector: {matchLabels: {network: a}}}]}]}"
    )

    assert reaches(FAR, DB, seed)


def cluster_policy(name: str, tier: str = "Admin", **spec: Any) -> ClusterNetworkPolicy:
    subject = {"namespaces": {"matchLabels": {TENANT: "acme"}}}
    wire = {"metadata": {"name": name}, "spec": {"tier": tier, "subject": subject, **spec}}
    return msgspec.convert(wire, ClusterNetworkPolicy)


def test_policies_of_administrators_decide_before_and_after_network_policies() -> None:
    everybody: Any = {"namespaces": {}}
    web = [{"tcp": {"destinationPort": {"number": 80}}}]
    deny = cluster_policy("deny", priority=2, ingress=[{"action": "Deny", "from": [everybody]}])
    first = {"action": "Accept", "from": [everybody], "protocols": web}
    accept = cluster_policy("accept", priority=1, ingress=[first])
    passing = cluster_policy("pass", priority=0, ingress=[{"action": "Pass", "from": [everybody]}])
    baseline = cluster_policy("base", "Baseline", ingress=[{"action": "Deny", "from": [everybody]}])
    one = TrafficEndpoint("a", "bolt-web", {}, {TENANT: "bolt"}, ("10.4.0.1",))
    other = TrafficEndpoint("b", "acme-web", {}, {TENANT: "acme"}, ("10.4.0.2",))
    http, https = TrafficPort(80), TrafficPort(443)
    opens = NetworkPolicy(
        metadata=Meta(name="all", namespace="acme-web"),
        spec=NetworkPolicySpec(ingress=(IngressPolicyRule(),)),
    )

    assert is_allowed(one, other, http, [], [deny, accept])
    assert not is_allowed(one, other, https, [opens], [deny, accept])
    assert is_allowed(one, other, https, [], [passing, deny])
    assert not is_allowed(one, other, https, [], [baseline])
    assert is_allowed(one, other, https, [opens], [baseline])
    assert is_allowed(other, one, https, [], [deny, baseline])


@pytest.mark.parametrize(
    "ports",
    [
        {"protocols": [{"destinationNamedPort": "http"}]},
        {"ports": [{"namedPort": "http"}]},
    ],
)
def test_a_rule_of_administrators_for_a_port_by_name_decides_nothing_and_is_told(
    ports: dict[str, Any],
) -> None:
    rule = {"action": "Deny", "from": [{"namespaces": {}}], **ports}
    named = cluster_policy("named", ingress=[rule])

    assert is_allowed(BOLT, ACME, TrafficPort(80), [], [named])
    assert unevaluated_ports([named]) == [f"named: {next(iter(next(iter(ports.values()))[0]))}"]


ACME = TrafficEndpoint("a", "acme-web", {"app": "web"}, {TENANT: "acme"}, ("10.4.0.2",))
BOLT = TrafficEndpoint("b", "bolt-web", {}, {TENANT: "bolt"}, ("10.4.0.1",))
TO_ACME = {"namespaceSelector": {"matchLabels": {TENANT: "acme"}}}


def antrea(name: str, rule: dict[str, Any], **spec: Any) -> AntreaClusterNetworkPolicy:
    """A policy for the pods of acme with one ingress rule."""
    whole = {"appliedTo": [TO_ACME], "ingress": [rule], **spec}
    return AntreaClusterNetworkPolicy(metadata=Meta(name=name), spec=whole)


DROP, ALLOW = {"action": "Drop"}, {"action": "Allow"}
HTTP: dict[str, Any] = {"ports": [{"protocol": "TCP", "port": 80, "endPort": 90}]}
NOBODY = policy("{podSelector: {}, policyTypes: [Ingress]}", "acme-web")


@pytest.mark.parametrize(
    ("policies", "laws", "port", "reached"),
    [
        ([antrea("drop", DROP)], [], 80, False),
        ([antrea("drop", DROP | HTTP)], [], 85, False),
        ([antrea("drop", DROP | HTTP)], [], 91, True),
        ([antrea("drop", DROP, priority=5), antrea("z", ALLOW, priority=4.5)], [], 80, True),
        ([antrea("drop", DROP, tier="emergency"), antrea("z", ALLOW, priority=1)], [], 80, False),
        ([antrea("drop", DROP, tier="late"), antrea("allow", ALLOW)], [], 80, True),
        ([antrea("allow", ALLOW)], [NOBODY], 80, True),
        ([antrea("pass", {"action": "Pass"}), antrea("z", ALLOW)], [NOBODY], 80, False),
        ([antrea("base", DROP, tier="baseline")], [], 80, False),
        ([antrea("base", ALLOW, tier="baseline")], [NOBODY], 80, False),
        ([antrea("own", DROP | {"from": [{"namespaces": {"match": "Self"}}]})], [], 80, True),
        (
            [antrea("same", DROP | {"from": [{"namespaces": {"sameLabels": [TENANT]}}]})],
            [],
            80,
            True,
        ),
        ([antrea("block", DROP | {"from": [{"ipBlock": {"cidr": "10.4.0.0/24"}}]})], [], 80, False),
        ([antrea("pods", DROP | {"from": [{"podSelector": {}}]})], [], 80, False),
        ([antrea("group", DROP | {"from": [{"group": "all"}]})], [], 80, True),
    ],
)
def test_policies_of_antrea_decide_by_tier_and_priority(
    policies: list[AntreaClusterNetworkPolicy],
    laws: list[NetworkPolicy],
    port: int,
    reached: bool,
) -> None:
    late = Tier(metadata=Meta(name="late"), spec={"priority": 252})

    rules = antrea_rules(policies, [late])

    assert is_allowed(BOLT, ACME, TrafficPort(port), laws, (), rules) is reached


def test_policies_of_antrea_in_a_namespace_are_about_its_pods() -> None:
    spec = {
        "appliedTo": [{"podSelector": {}}],
        "ingress": [{**DROP, "from": [{"podSelector": {}}]}],
    }
    own = AntreaNetworkPolicy(metadata=Meta(name="own", namespace="acme-web"), spec=spec)
    rules = antrea_rules([own])
    friend = structs.replace(ACME, name="c")

    assert not is_allowed(friend, ACME, TrafficPort(80), [], (), rules)
    assert is_allowed(BOLT, ACME, TrafficPort(80), [], (), rules)
    assert is_allowed(friend, BOLT, TrafficPort(80), [], (), rules)


def test_what_is_not_evaluated_of_policies_of_antrea_is_told() -> None:
    group = antrea("group", {**DROP, "from": [{"group": "all"}]})
    seven = AntreaNetworkPolicy(
        metadata=Meta(name="seven", namespace="acme-web"),
        spec={"egress": [{**ALLOW, "toServices": [{"name": "a"}], "l7Protocols": []}]},
    )

    source = antrea("source", {**DROP, "ports": [{"protocol": "TCP", "sourcePort": 53}]})

    assert unevaluated([seven, group, source, antrea("known", DROP | HTTP)]) == [
        "acme-web/seven: l7Protocols, toServices",
        "group: group",
        "source: ports.sourcePort",
    ]
    assert is_allowed(BOLT, ACME, TrafficPort(80), [], (), antrea_rules([source]))


def test_the_matrix_knows_the_policies_that_we_write_for_administrators() -> None:
    names = [NetworkName("acme"), NetworkName("acme", "lab"), NetworkName("bolt")]
    spaces = [
        Namespace(metadata=Meta(name=f"{n}-web", labels={TENANT: n})) for n in ("acme", "bolt")
    ]
    admin = [policy for name in names for policy in cluster_network_policies(name, ())]

    open_to_all = reachability_matrix(spaces, (), (), names)
    found = reachability_matrix(spaces, (), (), names, admin)

    assert open_to_all.leaks()
    assert found.leaks() == []
    assert all(found.reach[str(name), str(name)] == "all" for name in names)


def tenant_pod(tenant: str, network: str | None = None) -> TrafficEndpoint:
    labels = {NETWORK: network} if network else {}
    return TrafficEndpoint("pod", f"{tenant}-web", labels, {TENANT: tenant}, ("10.9.9.9",))


@pytest.mark.parametrize("network", [None, "default"], ids=["unlabelled", "labelled"])
def test_policies_of_administrators_count_pods_without_label_to_the_default_network(
    network: str | None,
) -> None:
    acme, lab, bolt = NetworkName("acme"), NetworkName("acme", "lab"), NetworkName("bolt")
    admin = [p for name in (acme, lab, bolt) for p in cluster_network_policies(name, ())]
    bare, own = tenant_pod("acme"), tenant_pod("acme", network)

    def both_ways(one: TrafficEndpoint, other: TrafficEndpoint) -> set[bool]:
        pairs = ((one, other), (other, one))
        return {is_allowed(a, b, TrafficPort(80), (), admin) for a, b in pairs}

    assert both_ways(bare, own) == {True}
    assert both_ways(bare, tenant_pod("acme", "lab")) == {False}
    assert both_ways(bare, tenant_pod("bolt", network)) == {False}


def test_policies_of_administrators_pass_pods_without_label_of_peers() -> None:
    lab, bolt = NetworkName("acme", "lab"), NetworkName("bolt")
    admin = [*cluster_network_policies(lab, (bolt,)), *cluster_network_policies(bolt, (lab,))]

    assert is_allowed(tenant_pod("acme", "lab"), tenant_pod("bolt"), TrafficPort(80), (), admin)
    assert is_allowed(tenant_pod("bolt"), tenant_pod("acme", "lab"), TrafficPort(80), (), admin)


def test_the_matrix_tries_a_pod_without_label_in_the_default_network() -> None:
    """Only labelled pods are kept apart here: no pod without a label exists yet."""
    names = [NetworkName("acme"), NetworkName("bolt")]
    spaces = [
        Namespace(metadata=Meta(name=f"{n}-web", labels={TENANT: n})) for n in ("acme", "bolt")
    ]
    admin = [policy for name in names for policy in cluster_network_policies(name, ())]
    labelled = [p for p in admin if "matchLabels" in p.spec.subject["pods"]["podSelector"]]

    assert reachability_matrix(spaces, (), (), names, admin).leaks() == []
    assert reachability_matrix(spaces, (), (), names, labelled).leaks() != []


def test_policies_of_administrators_have_no_more_peers_in_a_rule_than_the_api_accepts() -> None:
    acme, peers = NetworkName("acme"), tuple(NetworkName(f"t{n}") for n in range(30))

    for one in cluster_network_policies(acme, peers):
        *passed, denied = one.spec.egress

        assert [len(rule["to"]) for rule in passed] == [25, 25, 12]
        assert denied["action"] == "Deny"


def test_policies_of_administrators_are_written_with_their_tier_and_read_as_written() -> None:
    for one in cluster_network_policies(NetworkName("acme"), ()):
        wire = msgspec.json.decode(msgspec.json.encode(one))

        assert wire["spec"]["tier"] == "Admin", "the API requires it, and has no default"
        assert msgspec.convert(wire, ClusterNetworkPolicy) == one
