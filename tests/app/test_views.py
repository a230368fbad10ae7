"""Each feature's view says what is wrong with its objects, with the cause and the remedy."""

from typing import Any

import msgspec
import pytest

from hanse.app.views import examine
from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.features.networks.names import NETWORK, TENANT
from hanse.features.statefulsets.disruption import AWAITS_CLUSTERS, AWAITS_READY
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import Pod, Service
from hanse.model.kinds.federation import Federation
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import AMKOCluster, GlobalDeploymentPolicy, GSLBConfig, GSLBHostRule
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.multicluster import ServiceImport
from hanse.model.kinds.networks import Network, Tenant
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.objects import K, Meta
from tests.support.fleet_reads import NOW, findings, lease, read


def made(kind: type[K], name: str, namespace: str = "", **fields: Any) -> K:
    fields.setdefault("spec", {})
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    meta.update(fields.pop("metadata", {}))
    return msgspec.convert({"metadata": meta, **fields}, kind)


def bad(type_: str, status: str = "False") -> dict[str, Any]:
    one = {"type": type_, "status": status, "reason": "Why", "message": f"no {type_}"}
    return {"conditions": [one]}


def broker(*objects: Any, silent: tuple[str, ...] = ()) -> ClusterRead:
    cluster_set = ClusterSet(metadata=Meta(name="hanse"))
    beats = [lease(name, "hanse-broker", name, age=60) for name in silent]
    return read("broker", cluster_set, *objects, *beats, agent=None)


def shares(**replicas: int) -> StatefulSetShares:
    spec = {"shares": [{"name": c, "replicas": n} for c, n in replicas.items()]}
    return made(StatefulSetShares, "store", "shop", spec=spec)


def part(cluster: str, ready: int = 0, **spec: Any) -> StatefulSetPart:
    replicas = [{"name": f"store-{n}", "ready": True} for n in range(ready)]
    own = {"namespace": "shop", "name": "store", "cluster": cluster, "replicas": replicas, **spec}
    return made(StatefulSetPart, f"store-{cluster}", "hanse-broker", spec=own)


def member(cluster: str, up: bool) -> dict[str, Any]:
    return {"cluster": cluster, "address": "192.0.2.1", "up": up, "reason": "" if up else "refused"}


def host(**up: bool) -> GlobalService:
    members = [{"cluster": c, "address": "192.0.2.1"} for c in up]
    status = {"members": [member(c, is_up) for c, is_up in up.items()]}
    spec = {"host": "web.example.org", "members": members}
    return made(GlobalService, "web.example.org", "avi-system", spec=spec, status=status)


def amko(context: str, *clusters: str, leads: bool = False, epoch: int = 1) -> AMKOCluster:
    spec = {"isLeader": leads, "clusterContext": context, "clusters": list(clusters)}
    notes = {"annotations": {"gslb.hanse.dev/epoch": str(epoch)}}
    return made(AMKOCluster, "amkocluster", "avi-system", spec=spec, metadata=notes)


CASES: dict[str, tuple[list[ClusterRead], str, str, str]] = {
    "a tenant": (
        [read("lubeck", made(Tenant, "acme", status=bad("Ready")))],
        "TenantFailed",
        "degraded",
        "no Ready",
    ),
    "a network": (
        [
            read(
                "lubeck",
                made(
                    Network,
                    "acme.lab",
                    spec={"type": "flat"},
                    status={"phase": "Failed", "message": "no"},
                ),
            )
        ],
        "NetworkFailed",
        "degraded",
        "Network acme.lab in lubeck: no",
    ),
    "a full pool": (
        [
            read(
                "lubeck",
                made(
                    Network,
                    "acme.lab",
                    spec={"type": "flat", "service": {"cidrs": ["10.0.0.0/30"]}},
                    status={"phase": "Ready"},
                ),
                *(
                    Service(
                        metadata=Meta(
                            name=f"s{n}",
                            namespace="acme",
                            labels={TENANT: "acme", NETWORK: "lab"},
                        )
                    )
                    for n in range(2)
                ),
            )
        ],
        "PoolExhausted",
        "degraded",
        "2 of 2 Service addresses",
    ),
    "pods that ask where the DNS of their network was": (
        [
            read(
                "lubeck",
                made(
                    Network,
                    "acme.lab",
                    spec={"type": "flat"},
                    status={"phase": "Ready", "dnsServiceIP": "10.0.0.2"},
                ),
                *(
                    made(
                        Pod,
                        f"pod-{address}",
                        "acme",
                        metadata={"labels": {TENANT: "acme", NETWORK: "lab"}},
                        spec={"dnsConfig": {"nameservers": [f"10.0.0.{address}"]}},
                    )
                    for address in (1, 2)
                ),
            )
        ],
        "DnsStale",
        "degraded",
        "its DNS moved to 10.0.0.2, and 1 of 2 pods ask where it was",
    ),
    "an import that is not published": (
        [
            read(
                "lubeck",
                made(
                    ServiceImport,
                    "web",
                    "shop",
                    status=bad("Published"),
                    metadata={"labels": {"hanse.dev/owner": "x"}},
                    spec={"type": "ClusterSetIP", "ports": []},
                ),
            )
        ],
        "NotPublished",
        "degraded",
        "no Published",
    ),
    "an invalid set": (
        [
            read(
                "lubeck",
                made(
                    StatefulSet,
                    "store",
                    "shop",
                    spec={"serviceName": "x", "selector": {}, "template": {}},
                    status=bad("Valid"),
                ),
            )
        ],
        "SetInvalid",
        "degraded",
        "no Valid",
    ),
    "a set with nothing ready": (
        [broker(shares(lubeck=3), part("lubeck"))],
        "SetShort",
        "outage",
        "has 0 of 3 replicas ready: lubeck 0/3",
    ),
    "a refused set": (
        [broker(part("lubeck", refused={"field": "namespace", "reason": "no hanse.dev/accept"}))],
        "SetRefused",
        "risk",
        "lubeck takes nothing of StatefulSet shop/store",
    ),
    "a set in trouble without shares": (
        [broker(part("lubeck", trouble="store-lubeck exists already"))],
        "SetTrouble",
        "degraded",
        "store-lubeck exists already",
    ),
    "a set that lacks the replicas of a cluster in trouble": (
        [broker(shares(lubeck=1), part("lubeck", trouble="store-lubeck exists already"))],
        "SetTrouble",
        "outage",
        "store-lubeck exists already",
    ),
    "a newer report": (
        [broker(shares(lubeck=0), part("lubeck", schema=9))],
        "RecordTooNew",
        "risk",
        "update this one",
    ),
    "a host that is down": (
        [read("lubeck", host(lubeck=False))],
        "HostDown",
        "outage",
        "up at 0 of 1 members: lubeck 192.0.2.1: refused",
    ),
    "two leaders": (
        [
            read("lubeck", amko("lubeck", leads=True, epoch=1)),
            read("rome", amko("rome", leads=True, epoch=2)),
        ],
        "TwoLeaders",
        "degraded",
        "lubeck and rome both lead",
    ),
    "no leader": (
        [read("rome", amko("rome", "rome"))],
        "LeaderMissing",
        "degraded",
        "no cluster leads",
    ),
    "Avi with a wrong password": (
        [
            read(
                "lubeck",
                amko("lubeck", leads=True),
                made(
                    GSLBConfig,
                    "gc",
                    "avi-system",
                    status={"state": "error: the controller refuses user admin"},
                ),
            )
        ],
        "ProviderFailed",
        "degraded",
        "the controller refuses user admin",
    ),
    "a global policy": (
        [
            read(
                "lubeck",
                made(
                    GlobalDeploymentPolicy,
                    "gdp",
                    "avi-system",
                    status={"errorStatus": "spec.ttl: too long"},
                ),
            )
        ],
        "GlobalPolicyInvalid",
        "degraded",
        "spec.ttl: too long",
    ),
    "a host rule": (
        [
            read(
                "lubeck",
                made(
                    GSLBHostRule,
                    "rule",
                    "avi-system",
                    spec={"fqdn": "web.example.org"},
                    status={"status": "Rejected", "error": "no cluster oslo"},
                ),
            )
        ],
        "HostRuleRejected",
        "degraded",
        "no cluster oslo",
    ),
    "what a host rule has in vain": (
        [
            read(
                "lubeck",
                made(
                    GSLBHostRule,
                    "rule",
                    "avi-system",
                    spec={"fqdn": "web.example.org"},
                    status={"status": "Accepted", "warnings": ["no name server answers it"]},
                ),
            )
        ],
        "NotBalanced",
        "risk",
        "no name server answers it",
    ),
    "a roll-out that does not go on": (
        [broker(shares(lubeck=1), part("lubeck", ready=1, waits=AWAITS_READY))],
        "SetHalted",
        "degraded",
        "the roll-out of StatefulSet shop/store has halted in lubeck: goes on when fewer",
    ),
    "supervisors that disagree": (
        [
            read(cluster, made(Federation, "fed", status=bad("MembersDiffer", "True")))
            for cluster in ("lubeck", "hamburg")
        ],
        "MembersDiffer",
        "risk",
        "no MembersDiffer",
    ),
    "a member without a leader": (
        [read("lubeck", made(Federation, "fed", status=bad("Led")))],
        "LeaderMissing",
        "degraded",
        "no Led",
    ),
}


@pytest.mark.parametrize(
    ("members", "change"),
    [
        ([], '[{"op": "add", "path": "/spec/memberClusters", "value": [{"clusterContext": "l"}]}]'),
        (
            ["b"],
            '[{"op": "add", "path": "/spec/memberClusters/-", "value": {"clusterContext": "l"}}]',
        ),
    ],
)
def test_a_cluster_that_a_configuration_lacks_is_added_there_unless_its_name_is_wrong(
    members: list[str], change: str
) -> None:
    def mends(cluster: str) -> str:
        config = {"memberClusters": [{"clusterContext": one} for one in members]}
        error = f"spec.matchClusters[0].cluster: {cluster} is no member cluster of the GSLBConfig"
        policy = made(
            GlobalDeploymentPolicy,
            "gdp",
            "avi-system",
            spec={"matchClusters": [{"cluster": cluster}]},
            status={"errorStatus": f"{error}; add it there"},
        )
        site = amko("l", "l", leads=True)
        here = read("l", policy, made(GSLBConfig, "gc", "avi-system", spec=config), site)
        (found,) = (one for one in findings(here) if one.code == "GlobalPolicyInvalid")
        (command,) = found.remedy.commands
        return command

    patch = "kubectl --context l -n avi-system patch gslbconfigs.amko.vmware.com gc --type json -p"
    assert mends("l") == f"{patch} '{change}'"
    assert "globaldeploymentpolicies" in mends("nowhere")


@pytest.mark.parametrize("name", CASES)
def test_each_fault_of_a_feature_is_one_finding(name: str) -> None:
    clusters, code, severity, text = CASES[name]

    (found,) = findings(*clusters)

    assert (found.code, found.severity) == (code, severity)
    assert text in found.summary
    assert found.remedy.commands or found.remedy.advice


def test_a_dead_cluster_explains_services_sets_hosts_and_members() -> None:
    reach = {"type": "MembersReachable", "status": "False", "reason": "x", "message": "bergen: no"}
    status = {"members": [{"clusterID": "bergen", "reachable": False}], "conditions": [reach]}
    lubeck = read("lubeck", host(lubeck=True, bergen=True), made(Federation, "f", status=status))
    bergen = ClusterRead("bergen", failure="connection refused")
    sets = broker(
        shares(lubeck=1, bergen=1), part("lubeck", 1), part("bergen", 1), silent=("bergen",)
    )

    (found,) = findings(lubeck, bergen, sets)

    assert found.code == "ClusterUnreachable"
    assert sorted(c.subject.kind for c in found.consequences) == [
        "Federation",
        "GlobalService",
        "StatefulSet",
    ]
    assert "has 1 of 2 replicas ready: bergen lost" in str(found.consequences)


@pytest.mark.parametrize(
    ("clusters", "cause"),
    [
        pytest.param(
            [
                broker(
                    shares(lubeck=1, bergen=1),
                    part("lubeck", ready=1, waits=AWAITS_CLUSTERS),
                    part("bergen", ready=1),
                    silent=("bergen",),
                )
            ],
            "AgentSilent",
            id="a cluster is away",
        ),
        pytest.param(
            [broker(shares(lubeck=2), part("lubeck", ready=1, waits=AWAITS_READY))],
            "SetShort",
            id="a replica is not ready",
        ),
    ],
)
def test_what_halts_a_roll_out_is_told_before_it(clusters: list[ClusterRead], cause: str) -> None:
    (found,) = findings(*clusters)

    assert found.code == cause
    assert any("has halted in lubeck" in one.summary for one in found.consequences)


def test_a_set_is_short_because_of_a_cluster_that_left_with_a_share() -> None:
    submitted = made(
        StatefulSet,
        "store",
        "shop",
        spec={"serviceName": "x", "selector": {}, "template": {}},
        status=bad("Placed"),
    )
    placed, left = shares(lubeck=1, bergen=1), part("lubeck", ready=1)

    (found,) = findings(broker(placed, left, submitted))

    assert found.code == "SetNotPlaced"
    assert "has 1 of 2 replicas ready: bergen 0/1" in found.consequences[0].summary


def test_a_member_of_a_lost_cluster_is_shown_as_down_as_it_is_counted() -> None:
    lubeck = read("lubeck", host(lubeck=True, bergen=True))
    bergen = ClusterRead("bergen", failure="connection refused")

    (item,) = examine(build_fleet((lubeck, bergen), NOW)).items["gslb"].values()

    assert item.told == "1/2 up"
    assert [(p.cluster, p.state) for p in item.parts] == [("lubeck", "good"), ("bergen", "bad")]


def test_who_leads_is_not_known_where_not_every_cluster_was_read() -> None:
    assert findings(read("hamburg", amko("hamburg", "lubeck", "hamburg"))) == ()


def test_the_leader_of_the_earlier_term_is_to_be_demoted() -> None:
    one, other = amko("lubeck", leads=True, epoch=10), amko("rome", leads=True, epoch=9)

    (found,) = findings(read("lubeck", one), read("rome", other))

    assert found.remedy.commands == ("hanse gslb demote rome",)
