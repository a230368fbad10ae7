"""Findings of doctor from objects, each with its remedy."""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from hanse import __version__, app
from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import (
    ACCEPTANCE,
    COREFILE,
    DEPLOYMENTS,
    FIRST,
    GUARD_LEASES,
    GUARDS,
    NODE_GUARDS,
    POLICIES,
    RANGES,
    SECRETS,
    SITE_SECRET,
    SLICES,
    SUPERVISORS,
    UNATTACHED,
    WEBHOOKS,
    further_lists,
)
from hanse.cli.doctor.objects import check_objects
from hanse.cli.fleet import ClusterRead
from hanse.cli.gslb.leadership import LeaderChange, warnings
from hanse.cli.gslb.view import GslbCluster, GslbView
from hanse.dns.corefile import server_block
from hanse.features.federation.manifests import supervisor_policies
from hanse.features.services.manifests import broker_policies
from hanse.features.services.reading import NARROWED
from hanse.kube.decoding import decode_list_page
from hanse.kube.watch_events import Listed
from hanse.model.facts import Role
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import Node, Service, ServiceAccount
from hanse.model.kinds.federation import Federation
from hanse.model.kinds.gslb import AMKOCluster
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.kinds.networks import Network
from hanse.model.manifests import Manifest
from hanse.model.naming import ZONE
from hanse.model.snapshot import Watch

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


LEASES, NODES = Watch(Role.LOCAL, Lease), Watch(Role.LOCAL, Node)
SERVICES = NARROWED[Service]
WATCHES: dict[str, tuple[Watch, dict[str, Any]]] = {
    "federations": (Watch(Role.LOCAL, Federation), {}),
    "leases": (LEASES, {"namespace": "antrea-plus-system"}),
    "heartbeats": (LEASES, {"labels": {"hanse.dev/member": ""}}),
    "accounts": (Watch(Role.LOCAL, ServiceAccount), {"labels": {"hanse.dev/member": ""}}),
    "networks": (Watch(Role.LOCAL, Network), {}),
    "nodes": (NODES, {}),
    "acceptance": (ACCEPTANCE, {}),
    "ranges": (RANGES, {}),
    "validating": (WEBHOOKS[0], {}),
    "guards": (GUARDS, {}),
    "policies": (POLICIES, {}),
    "supervisors": (SUPERVISORS, {"namespace": "antrea-plus-system"}),
    "slices": (SLICES, {"namespace": "hanse-system"}),
    "secrets": (SECRETS, {"namespace": "antrea-plus-system"}),
    "amkos": (Watch(Role.LOCAL, AMKOCluster), {"namespace": "avi-system"}),
    "sites": (SITE_SECRET, {"namespace": "avi-system"}),
    "deployments": (DEPLOYMENTS, {"namespace": "hanse-system"}),
    "services": (SERVICES, {"namespace": "hanse-system"}),
    "corefile": (COREFILE, {"namespace": "kube-system"}),
    "events": (UNATTACHED, {"namespace": "acme-web"}),
    "daemonsets": (NODE_GUARDS, {"namespace": "hanse-system"}),
    "guard_leases": (GUARD_LEASES, {"namespace": "hanse-guards"}),
}
"""What is listed, by a short name, and the metadata that all of it has."""


def lists(name: str = "lubeck", **lists: list[dict[str, Any]]) -> ClusterRead:
    """A cluster as it is read, first and further; what is not named is empty."""
    read = ClusterRead(name, dict.fromkeys((LEASES, *FIRST), Listed((), "1")))
    for what, items in lists.items():
        watch, meta = WATCHES[what]
        fields = {"addressType": "IPv4"} if what == "slices" else {}
        wires = [{**fields, **one, "metadata": {**meta, **one["metadata"]}} for one in items]
        page = decode_list_page(msgspec.json.encode({"items": wires}), watch.kind)
        known = read.lists.get(watch, Listed((), "1"))
        objects = (*known.objects, *page.objects)
        read.lists[watch] = Listed(objects, "1", tuple(page.unreadable))
    for watch in further_lists([read])[name]:
        read.lists.setdefault(watch, Listed((), "1"))
    return read


def only(*clusters: ClusterRead) -> Finding:
    (finding,) = check_objects(clusters, NOW)
    assert finding.remedy
    return finding


def test_address_policies_of_0_1_0_are_found_once_no_such_agent_runs() -> None:
    network = named("acme.lab", spec={"type": "flat", "tenant": "acme"})
    names = ("networks.hanse.dev-pools", "networks.hanse.dev-pool-acme.lab", "others-pool")
    bound: dict[str, Any] = {"networks": [network], "guards": [named(name) for name in names]}

    found = only(lists("rome", **bound, deployments=[_agent(__version__)]))

    assert found.code == "AdmissionPolicyOld"
    assert found.remedy == (
        "kubectl --context rome delete validatingadmissionpolicybinding,validatingadmissionpolicy "
        "networks.hanse.dev-pool-acme.lab"
    )
    assert check_objects([lists("rome", **bound, deployments=[_agent("0.1.0")])], NOW) == []


def test_a_fleet_with_nothing_in_it_has_nothing_wrong() -> None:
    assert check_objects([lists(), lists("bergen")], NOW) == []


class Policies(Struct, frozen=True):
    """Admission policies and their bindings, as they stand in a cluster."""

    policies: tuple[dict[str, Any], ...]
    bindings: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, made: Iterable[Manifest]) -> Self:
        """All that these manifests make."""
        wires = [one.wire for one in made]
        kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        return cls(*(tuple(w for w in wires if w["kind"] == kind) for kind in kinds))

    @property
    def lists(self) -> dict[str, list[dict[str, Any]]]:
        """What a cluster lists of them."""
        return {"policies": list(self.policies), "guards": list(self.bindings)}

    @property
    def weakened(self) -> list[Self]:
        """Without a policy, without a binding, and with a binding that only warns."""
        first, *others = self.bindings
        spec = {**first["spec"], "validationActions": ["Warn", "Audit"]}
        return [
            replace(self, policies=self.policies[1:]),
            replace(self, bindings=tuple(others)),
            replace(self, bindings=({**first, "spec": spec}, *others)),
        ]


def _of_broker() -> Policies:
    rules = [rule for access in app.broker_access() for rule in access.rules]
    return Policies.of(broker_policies(rules, "league"))


@pytest.mark.parametrize("namespace", ["league-accounts", "league"])
@pytest.mark.parametrize("weakened", _of_broker().weakened, ids=["policy", "binding", "warns"])
def test_a_broker_whose_members_nothing_holds_is_unguarded(
    namespace: str, weakened: Policies
) -> None:
    account = {"metadata": {"name": "rome", "namespace": namespace}}
    heartbeat = {"metadata": {"name": "rome", "namespace": "league"}}

    finding = only(lists("broker", accounts=[account], heartbeats=[heartbeat], **weakened.lists))

    assert "1 admission policies of league are missing or do not deny" in finding.problem
    assert finding.remedy == "hanse broker init --context broker --namespace league"
    whole = lists("broker", accounts=[account], heartbeats=[heartbeat], **_of_broker().lists)
    assert check_objects([whole], NOW) == []


def _of_member() -> Policies:
    return Policies.of(supervisor_policies(app.supervisor_rules(), "bergen"))


@pytest.mark.parametrize("weakened", _of_member().weakened, ids=["policy", "binding", "warns"])
def test_a_member_whose_supervisors_nothing_holds_is_unguarded(weakened: Policies) -> None:
    account = named("hanse-supervisor-rome")
    account["metadata"]["labels"] = {"hanse.dev/supervisor": "rome"}
    supervised: dict[str, Any] = {"federations": [named("fed")], "supervisors": [account]}

    finding = only(lists("bergen", **supervised, **weakened.lists))

    assert "1 admission policies for supervisors are missing or do not deny" in finding.problem
    assert finding.code == "MemberUnguarded"
    assert finding.remedy == (
        "hanse join --federation fed --cluster-id bergen --context bergen --supervisor rome"
    )
    assert check_objects([lists("bergen", **supervised, **_of_member().lists)], NOW) == []
    assert check_objects([lists("bergen", federations=[named("fed")])], NOW) == []


def test_a_member_whose_lease_is_gone_is_reported() -> None:
    account = {"metadata": {"name": "rome", "namespace": "league-accounts"}}

    def broker(*heartbeats: dict[str, Any], phase: str = "Ready") -> ClusterRead:
        held = _of_broker().lists
        found = lists("broker", accounts=[account], heartbeats=list(heartbeats), **held)
        place = {"name": "rome", "namespace": "league"}
        spec, status = {"clusterID": "rome", "uid": "any"}, {"phase": phase}
        wire = {"metadata": place, "spec": spec, "status": status}
        record = msgspec.convert(wire, ClusterMember)
        found.lists[Watch(Role.LOCAL, ClusterMember)] = Listed((record,), "1")
        return found

    missing = only(broker())

    assert (missing.code, missing.problem.partition(",")[0]) == ("LeaseMissing", "rome has joined")
    assert missing.remedy == (
        "hanse join --broker broker --broker-namespace league --cluster-id rome --context rome"
    )
    assert check_objects([broker({"metadata": {"name": "rome", "namespace": "league"}})], NOW) == []
    for phase in ("Leaving", "Left", "Replaced"):  # other findings say so, and how it ends
        assert check_objects([broker(phase=phase)], NOW) == []


def test_more_than_five_supervisors_are_too_many() -> None:
    def supervisor(number: int) -> ClusterRead:
        members = [{"clusterID": "bergen", "reachable": True}]
        return lists(f"c{number}", federations=[named("fed", status={"members": members})])

    assert check_objects([supervisor(n) for n in range(5)], NOW) == []
    assert only(*(supervisor(n) for n in range(6))).problem.startswith("6 clusters supervise")


def test_a_copied_token_without_an_expiry_is_reported() -> None:
    def secret(claims: dict[str, Any]) -> dict[str, Any]:
        payload = b64encode(json.dumps(claims).encode()).decode()
        token = b64encode(f"e30.{payload}.x".encode()).decode()
        return named("member-bergen", type="Opaque", data={"token": token})

    spec = {
        "members": [{"clusterID": "bergen", "server": "https://bergen", "secret": "member-bergen"}]
    }
    federation = named("fed", spec=spec)

    long_running = only(lists(federations=[federation], secrets=[secret({"sub": "s"})]))
    ending = check_objects([lists(federations=[federation], secrets=[secret({"exp": 2e9})])], NOW)

    assert "the token for bergen" in long_running.problem
    assert ending == []


def test_a_lease_that_nobody_renews_is_named() -> None:
    old = {
        "holderIdentity": "lubeck_a",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-05-01T11:00:00Z",
    }
    fresh = {**old, "renewTime": "2026-05-01T11:59:55Z"}

    found = only(lists(leases=[named("bergen", spec=old), named("rome", spec=fresh)]))

    assert "nobody leads bergen" in found.problem


@pytest.mark.parametrize(
    ("renewed", "said"),
    [
        ("2026-05-01T14:59:55Z", "the clock of its agent is 180 min ahead of its API server's"),
        ("2026-05-01T08:59:55Z", "the clock of its agent is 180 min behind its API server's"),
    ],
)
def test_the_clock_of_an_agent_is_compared_with_that_of_its_api_server(
    renewed: str, said: str
) -> None:
    spec = {"holderIdentity": "lubeck_a", "leaseDurationSeconds": 15, "renewTime": renewed}
    written = {"managedFields": [{"time": "2026-05-01T11:59:55Z"}]}
    agent = {"metadata": {"name": "hanse-agent", "namespace": "hanse-system", **written}}

    found = only(lists(leases=[{**agent, "spec": spec}]))

    assert found.code == "ClockSkew"
    assert said in found.problem


def test_a_webhook_that_nobody_answers_is_named_once() -> None:
    service = {"clientConfig": {"service": {"name": "hanse-webhooks", "namespace": "hanse-system"}}}
    ours = named(
        "hanse", webhooks=[{"name": "a.hanse.dev", **service}, {"name": "b.hanse.dev", **service}]
    )
    ready = {
        "metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "hanse-webhooks"}},
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
    }

    found = only(lists(validating=[ours]))
    assert "a.hanse.dev has no ready endpoints" in found.problem
    assert found.remedy.endswith("delete validatingwebhookconfiguration hanse")
    assert check_objects([lists(validating=[ours], slices=[ready])], NOW) == []


@pytest.mark.parametrize(
    ("replicas", "remedy"),
    [
        (0, "-n hanse-system scale --replicas=1 deployment/hanse-agent"),
        (2, "-n hanse-system rollout restart deployment/hanse-agent"),
        (None, "delete validatingwebhookconfiguration hanse-webhooks"),
    ],
)
def test_webhooks_of_an_agent_are_served_again_by_the_agent(
    replicas: int | None, remedy: str
) -> None:
    service = {"clientConfig": {"service": {"name": "hanse-webhooks", "namespace": "hanse-system"}}}
    ours = named("hanse-webhooks", webhooks=[{"name": "a.webhooks.hanse.dev", **service}])
    agents = [] if replicas is None else [named("hanse-agent", spec={"replicas": replicas})]

    found = only(lists(validating=[ours], deployments=agents))

    assert found.remedy == f"kubectl --context lubeck {remedy}"
    assert found.of_agent


def test_a_webhook_of_others_whose_service_has_a_name_like_ours_is_theirs() -> None:
    service = {"clientConfig": {"service": {"name": "hanseatic-port", "namespace": "ports"}}}
    theirs = named("ports", webhooks=[{"name": "a.ports.example.com", **service}])

    assert check_objects([lists(validating=[theirs], slices=[])], NOW) == []


@pytest.mark.parametrize("conditions", [{}, {"ready": None}, {"serving": True}])
def test_an_endpoint_that_does_not_say_whether_it_is_ready_is_ready(conditions: Any) -> None:
    service = {"clientConfig": {"service": {"name": "hanse-webhooks", "namespace": "hanse-system"}}}
    ours = named("hanse", webhooks=[{"name": "a.hanse.dev", **service}])
    slice_ = {
        "metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "hanse-webhooks"}},
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": conditions}],
    }
    unready = {**slice_, "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": False}}]}

    assert check_objects([lists(validating=[ours], slices=[slice_])], NOW) == []
    assert only(lists(validating=[ours], slices=[unready])).code == "WebhookDown"


def test_dns_that_is_not_forwarded_is_reported_where_our_server_runs() -> None:
    corefile = named("coredns", data={"Corefile": ".:53 { forward . /etc/resolv.conf }"})
    handed = named("coredns", data={"Corefile": "clusterset.local:53 { forward . 10.0.0.1 }"})
    ours = named("hanse-dns", status={"readyReplicas": 1})

    assert (
        "does not hand clusterset.local over"
        in only(lists(deployments=[ours], corefile=[corefile])).problem
    )
    assert check_objects([lists(deployments=[ours], corefile=[handed])], NOW) == []
    assert check_objects([lists(corefile=[corefile])], NOW) == []


def _handed_to(*servers: str, address: str) -> list[Finding]:
    """What is found where the zone is handed to these servers, and hanse-dns has this address."""
    server = named("hanse-dns", status={"readyReplicas": 1})
    service = named("hanse-dns", spec={"clusterIP": address})
    text = ".:53 {\n    forward . /etc/resolv.conf\n}\n" + server_block(ZONE, servers)
    corefile = named("coredns", data={"Corefile": text})
    return check_objects(
        [lists(deployments=[server], corefile=[corefile], services=[service])], NOW
    )


@pytest.mark.parametrize("asked", ["10.2.0.54", "10.2.0.54:53", "[fd00::54]:53", "fd00::54"])
def test_dns_that_asks_an_address_which_hanse_dns_has_no_more_is_reported(asked: str) -> None:
    (one,) = _handed_to(asked, address="10.2.0.53")

    assert one.code == "ZoneNotDelegated"
    assert one.problem.endswith("and Service hanse-dns has the address 10.2.0.53")
    assert "hanse dns corefile 10.2.0.53" in one.remedy
    assert _handed_to(asked, "10.2.0.53:53", address="10.2.0.53") == []


@pytest.mark.parametrize(
    "asked", ["fd00::53", "[fd00::53]", "[fd00::53]:53", "fd00:0:0::53", "dns://[fd00::53]:53"]
)
def test_dns_that_asks_the_ipv6_address_of_hanse_dns_is_as_it_should_be(asked: str) -> None:
    """The first is what the remedy prints for it."""
    assert _handed_to(asked, address="fd00::53") == []


@pytest.mark.parametrize("name", ["hanse-dns", "hanse-network-dns"])
@pytest.mark.parametrize(("replicas", "again"), [(0, "scale --replicas=1"), (2, "rollout restart")])
def test_a_name_server_without_a_ready_pod_is_reported(
    name: str, replicas: int, again: str
) -> None:
    down = named(name, spec={"replicas": replicas})

    found = only(lists(deployments=[down]))

    assert (found.code, str(found.subject)) == ("DnsDown", f"Deployment hanse-system/{name}")
    assert found.remedy == f"kubectl --context lubeck -n hanse-system {again} deployment/{name}"
    assert found.pasteable


def test_an_invalid_range_is_reported_by_the_network_itself() -> None:
    network = named("acme.default", spec={"type": "flat", "service": {"cidrs": ["10.0.0.0/33"]}})

    assert check_objects([lists(networks=[network])], NOW) == []


@pytest.mark.parametrize(
    ("cidr", "whose"),
    [
        ("10.101.0.0/24", "range 10.101.0.0/24 of pods on node n1"),
        ("172.20.0.0/24", "address 172.20.0.7 of node n1"),
    ],
)
def test_service_ranges_that_overlap_pods_or_nodes_are_reported(cidr: str, whose: str) -> None:
    addresses = [{"type": "Hostname", "address": "n1"}]
    addresses += [{"type": "InternalIP", "address": "172.20.0.7"}]
    node = named("n1", spec={"podCIDRs": ["10.101.0.0/24"]}, status={"addresses": addresses})
    network = named("acme.lab", spec={"type": "flat", "service": {"cidrs": [cidr, "10.77.0.0/24"]}})

    assert f"{cidr} overlaps {whose}" in only(lists(networks=[network], nodes=[node])).problem


def test_a_token_that_never_expires_is_reported() -> None:
    member = {"clusterID": "bergen", "server": "https://bergen", "secret": "bergen-token"}
    federation = named("fed", spec={"members": [member]})
    secret = named("bergen-token", type="kubernetes.io/service-account-token")

    assert "never ends" in only(lists(federations=[federation], secrets=[secret])).problem


def jwt(issued: timedelta, ends: timedelta) -> str:
    """A token of gslb-leader that was issued and ends so long from now."""
    claims = {
        "sub": "system:serviceaccount:avi-system:gslb-leader",
        "iat": (NOW + issued).timestamp(),
        "exp": (NOW + ends).timestamp(),
    }
    payload = urlsafe_b64encode(msgspec.json.encode(claims)).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{payload}.c2lnbmF0dXJl"


def test_a_token_that_nobody_renews_is_reported_before_it_ends() -> None:
    month, week = timedelta(days=30), timedelta(days=7)
    member = {"clusterID": "bergen", "server": "https://bergen", "secret": "bergen-token"}
    federation = named("fed", spec={"members": [member]})

    def read(token: str) -> ClusterRead:
        def data(key: str, text: str) -> dict[str, Any]:
            return {"data": {key: b64encode(text.encode()).decode()}}

        kubeconfig = f"users: [{{name: x, user: {{token: {token}}}}}]"
        return lists(
            federations=[federation],
            secrets=[named("bergen-token", **data("token", token))],
            amkos=[named("amko")],
            sites=[named("gslb-config-secret", **data("gslb-members", kubeconfig))],
        )

    found = check_objects([read(jwt(week - month, week))], NOW)

    assert {f.code for f in found} == {"TokenExpiring"}
    assert [f.subject.name for f in found if f.subject] == ["bergen-token", "gslb-config-secret"]
    assert "ends in 168 hours" in found[0].problem
    assert check_objects([read(jwt(2 * week - month, 2 * week))], NOW) == []


def test_overlapping_ranges_are_reported_once_for_each_pair() -> None:
    def with_range(name: str, cidr: str) -> ClusterRead:
        return lists(name, ranges=[named("kubernetes", spec={"cidrs": [cidr]})], nodes=[named("n")])

    found = only(
        with_range("lubeck", "10.96.0.0/12"),
        with_range("bergen", "10.100.0.0/16"),
        with_range("rome", "10.0.0.0/16"),
    )

    assert found.problem == "its range 10.96.0.0/12 overlaps 10.100.0.0/16 of bergen"


def test_a_change_to_an_object_of_helm_values_warns_to_change_the_values() -> None:
    def site(name: str, **labels: str) -> GslbCluster:
        own = {"metadata": {"name": "amkocluster-federation", "labels": labels}, "spec": {}}
        return GslbCluster(name, clusters=(msgspec.convert(own, AMKOCluster),))

    by_values = site("rome", **{"app.kubernetes.io/part-of": "hanse"})
    view = GslbView((site("lubeck"), by_values))

    assert warnings(LeaderChange("lubeck", leads=True), view) == []
    (note,) = warnings(LeaderChange("rome", leads=True), view)
    assert "set gslb.isLeader to true there, too" in note


def test_an_agent_beyond_the_version_skew_is_reported() -> None:
    found = only(lists(deployments=[_agent("9.9.0")]))

    assert "its agent is version 9.9.0" in found.problem
    assert (found.remedy, found.pasteable) == ("update this program to 9.9.0", False)


def test_a_rolling_upgrade_by_one_release_is_nothing_to_tell() -> None:
    fleet = [lists("rome", deployments=[_agent("0.1.9")]), lists(deployments=[_agent("0.2.0")])]

    assert check_objects(fleet, NOW) == []


def test_agents_that_are_more_than_one_release_apart_from_each_other_are_reported() -> None:
    major, minor = map(int, __version__.split(".")[:2])
    old, new = f"{major}.{minor - 1}.0", f"{major}.{minor + 1}.0"

    found = only(lists("rome", deployments=[_agent(old)]), lists("oslo", deployments=[_agent(new)]))

    assert found.cluster == "rome"
    assert found.problem == f"its agent is version {old}, and that of oslo is {new}"
    assert found.remedy.startswith("kubectl --context rome -n hanse-system set image ")


def _agent(version: str) -> dict[str, Any]:
    meta = {"name": "hanse-agent", "labels": {"app.kubernetes.io/version": version}}
    pod = {"containers": [{"name": "hanse-agent", "image": f"hanse:{version}"}]}
    return {"metadata": meta, "spec": {"template": {"spec": pod}}}


def test_an_acceptance_policy_that_cannot_be_read_is_found() -> None:
    wrong = named("default", spec={"workloads": {"podSecurity": "none"}})
    fine = named("default", spec={"workloads": {"podSecurity": "restricted"}})

    assert check_objects([lists(acceptance=[fine])], NOW) == []
    found = only(lists(acceptance=[wrong]))
    assert "AcceptancePolicy default cannot be read" in found.problem
    assert "podSecurity" in found.problem
