"""Every cluster read once becomes snapshots, over which views judge."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.cli.clusters import ClusterAccess, ReadFailure
from hanse.cli.doctor.checks import as_finding
from hanse.cli.doctor.clusters import Finding as Check
from hanse.cli.findings import Report
from hanse.cli.fleet import ClusterRead, unread
from hanse.cli.fleet_lists import read_objects
from hanse.features.services.names import DOMAIN, SERVICE_NAME, SERVICE_NAMESPACE, SOURCE_CLUSTER
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, ServerEndpoint, StaticCredentials
from hanse.kube.errors import Unanswered, Unreachable, Untrusted, error_from_response
from hanse.kube.transport import Request, Response
from hanse.model.agent_report import BROKER_CONNECTION
from hanse.model.conditions import condition
from hanse.model.findings import Finding, Severity, Unknown, cluster_ref, judge
from hanse.model.kinds.antrea import AntreaNetworkPolicy
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import (
    Namespace,
    Node,
    NodeStatus,
    ObservedCondition,
    Secret,
    Service,
    ServiceSpec,
)
from hanse.model.kinds.discovery import MANAGED_BY, Endpoint, EndpointConditions, EndpointSlice
from hanse.model.kinds.federation import Federation, FederationStatus, MemberState
from hanse.model.kinds.hanse import (
    ClusterMember,
    ClusterMemberSpec,
    ClusterMemberStatus,
    ClusterSet,
    ClusterSetSpec,
    MemberPhase,
)
from hanse.model.kinds.multicluster import (
    ExportingCluster,
    ImportedPort,
    ServiceExport,
    ServiceExportStatus,
    ServiceImport,
    ServiceImportSpec,
    ServiceImportStatus,
)
from hanse.model.objects import Meta, Object
from hanse.model.ownership import OWNER, PAUSED
from tests.support.fleet_reads import NOW, findings, lease, read

GOOD = (condition("Valid", True, "Valid"), condition("Ready", True, "Exported"))


def broker(*heartbeats: Object, paused: bool = False) -> ClusterRead:
    cluster_set = ClusterSet(metadata=Meta(name="hanse"), spec=ClusterSetSpec(paused=paused))
    return read(
        "broker", cluster_set, *published("lubeck"), *published("bergen"), *heartbeats, agent=None
    )


def published(source: str) -> list[Object]:
    labels = {SERVICE_NAME: "web", SERVICE_NAMESPACE: "shop", SOURCE_CLUSTER: source}
    meta = Meta(name=f"web-{source}", namespace="hanse-broker", labels=labels)
    return [EndpointSlice(metadata=meta, address_type="IPv4", endpoints=(endpoint(True),))]


def endpoint(ready: bool) -> Endpoint:
    return Endpoint(addresses=("10.0.0.1",), conditions=EndpointConditions(ready=ready))


def web(*exporters: str, ready: bool = True, conditions: Any = GOOD) -> list[Object]:
    """An export, its import and its slices, as they are in each cluster."""
    meta = Meta(name="web", namespace="shop", creation_timestamp=NOW - timedelta(hours=1))
    status = ServiceImportStatus(clusters=tuple(ExportingCluster(cluster=c) for c in exporters))
    return [
        Service(metadata=meta, spec=ServiceSpec(selector={"app": "web"})),
        ServiceExport(metadata=meta, status=ServiceExportStatus(conditions=conditions)),
        ServiceImport(
            metadata=replace(meta, labels={OWNER: "services"}),
            spec=ServiceImportSpec(type="ClusterSetIP", ports=(ImportedPort(port=80),)),
            status=status,
        ),
        *(slice_(source, ready) for source in exporters),
    ]


def slice_(source: str, ready: bool) -> EndpointSlice:
    labels = {SERVICE_NAME: "web", SOURCE_CLUSTER: source, MANAGED_BY: DOMAIN}
    meta = Meta(name=f"web-{source}", namespace="shop", labels=labels)
    return EndpointSlice(metadata=meta, address_type="IPv4", endpoints=(endpoint(ready),))


HEALTHY = (
    read("lubeck", *web("lubeck", "bergen")),
    read("bergen", *web("lubeck", "bergen")),
    broker(lease("lubeck", "hanse-broker", "lubeck"), lease("bergen", "hanse-broker", "bergen")),
)


def test_nothing_is_found_in_a_healthy_fleet() -> None:
    assert findings(*HEALTHY) == ()


def test_a_dead_cluster_is_the_cause_and_the_service_that_it_served_a_consequence() -> None:
    dead = ClusterRead("bergen", failure="connection refused")
    silent = broker(lease("bergen", "hanse-broker", "bergen", age=41))

    (found,) = findings(HEALTHY[0], dead, silent)

    assert (found.code, found.severity) == ("ClusterUnreachable", Severity.DEGRADED)
    assert found.remedy.commands == ("hanse local start bergen",)
    assert found.since == NOW - timedelta(seconds=41)
    assert [c.summary for c in found.consequences] == [
        "shop/web is served by 1 of 2 clusters, not by bergen"
    ]


def test_a_member_cut_from_the_broker_is_silent_although_its_agent_runs() -> None:
    silent = broker(lease("bergen", "hanse-broker", "bergen", age=41))

    (found,) = findings(HEALTHY[0], HEALTHY[1], silent)

    assert found.code == "ClusterSilent"
    assert found.remedy.commands == ("hanse local heal bergen broker",)
    assert [c.subject.name for c in found.consequences] == ["web"]


@pytest.mark.parametrize("clock", [timedelta(hours=3), timedelta(hours=-3)], ids=str)
@pytest.mark.parametrize(("written", "codes"), [(2, []), (60, ["AgentSilent"])])
def test_a_wrong_clock_of_an_agent_hides_no_death_and_makes_none(
    clock: timedelta, written: float, codes: list[str]
) -> None:
    renewed = written - clock.total_seconds()
    agent = lease("hanse-agent", "hanse-system", "bergen_0", renewed, written=written)

    found = findings(read("bergen", agent, agent=None))

    assert [one.code for one in found] == codes


def test_a_lease_is_as_old_as_it_was_when_its_cluster_answered() -> None:
    early = read("bergen", agent=60, asked_at=NOW - timedelta(seconds=58))

    assert findings(early) == ()


def test_a_lease_is_judged_by_the_clock_of_its_api_server() -> None:
    assert findings(read("bergen", agent=60, skew=timedelta(minutes=-1))) == ()
    assert findings(read("bergen", agent=-30, skew=timedelta(minutes=1)))[0].code == "AgentSilent"


@pytest.mark.parametrize(
    ("bergen", "code", "commands"),
    [
        (read("bergen", slow=True), "ClusterSlow", ("hanse local slow bergen 0s",)),
        (
            ClusterRead("bergen", failure="no answer within 5 s", slow=True),
            "ClusterUnreachable",
            ("hanse local slow bergen 0s",),
        ),
        (
            ClusterRead("bergen", failure="certificate has expired", untrusted=True),
            "CertificateUntrusted",
            (),
        ),
    ],
    ids=["late", "not in time", "untrusted"],
)
def test_a_cluster_that_is_not_stopped_is_not_started(
    bergen: ClusterRead, code: str, commands: tuple[str, ...]
) -> None:
    (found,) = findings(bergen)

    assert (found.code, found.remedy.commands) == (code, commands)
    assert commands or found.remedy.ask == "the administrator of bergen"


@pytest.mark.parametrize(
    ("error", "untrusted", "slow"),
    [
        (Untrusted("certificate has expired"), True, False),
        (Unanswered("no answer within 5 s"), False, True),
        (Unreachable("connection refused"), False, False),
    ],
)
def test_why_a_cluster_is_not_read_is_kept(error: Unreachable, untrusted: bool, slow: bool) -> None:
    found = unread(ReadFailure("bergen", error))

    assert (found.untrusted, found.slow, found.refused) == (untrusted, slow, False)


def reporting(connection: str) -> ClusterRead:
    """Bergen, whose agent says this of its connection to the broker."""
    agent = lease("hanse-agent", "hanse-system", "bergen_0")
    said = {BROKER_CONNECTION: connection}
    agent = replace(agent, metadata=replace(agent.metadata, annotations=said))
    return read("bergen", agent, agent=None)


@pytest.mark.parametrize(
    ("connection", "told", "told_late"),
    [
        (
            "CredentialsRejected {}",
            "broker refuses the credentials of the agent of bergen",
            "broker refuses the credentials of its agent",
        ),
        (
            "AgentForbidden {} endpointslices,leases",
            "broker refuses the agent of bergen: its account may not use endpointslices, leases",
            "broker refuses its agent: its account may not use endpointslices, leases",
        ),
    ],
)
def test_a_member_that_exports_nothing_and_whom_the_broker_refuses_is_told_so(
    connection: str, told: str, told_late: str
) -> None:
    since = NOW - timedelta(minutes=2)
    member = reporting(connection.format(since.isoformat()))

    (early,) = findings(member, broker(lease("bergen", "hanse-broker", "bergen")))
    (late,) = findings(member, broker(lease("bergen", "hanse-broker", "bergen", age=41)))

    join = ("hanse join --broker broker --cluster-id bergen --context bergen",)
    assert (early.code, early.since, early.remedy.commands) == ("TokenRevoked", since, join)
    assert (late.code, late.remedy.commands) == ("ClusterSilent", join)
    assert told in early.summary
    assert told_late in late.summary


@pytest.mark.parametrize(("phase", "code"), [("Left", ""), ("Ready", "ClusterSilent")])
def test_a_cluster_that_has_left_is_not_said_to_be_silent_or_cut_off(
    phase: MemberPhase, code: str
) -> None:
    left = ClusterMember(
        metadata=Meta(name="bergen", namespace="hanse-broker"),
        spec=ClusterMemberSpec(cluster_id="bergen", uid="any"),
        status=ClusterMemberStatus(phase=phase, since=NOW),
    )
    remains = broker(lease("bergen", "hanse-broker", "bergen", age=41), left)

    found = findings(reporting(f"Disconnected {NOW.isoformat()}"), remains)

    assert [one.code for one in found] == ([code] if code else [])


def test_a_member_whose_token_the_broker_rejects_is_silent_until_it_joins_again() -> None:
    rejected = (GOOD[0], condition("Ready", None, "CredentialsRejected"))
    silent = broker(lease("bergen", "hanse-broker", "bergen", age=41))

    (found,) = findings(HEALTHY[0], read("bergen", *web("bergen", conditions=rejected)), silent)

    assert found.code == "ClusterSilent"
    assert "broker refuses the credentials of its agent" in found.summary
    assert found.remedy.commands == (
        "hanse join --broker broker --cluster-id bergen --context bergen",
    )


def test_an_export_that_no_agent_has_looked_at_follows_from_the_pause_of_the_fleet() -> None:
    beats = (lease(one, "hanse-broker", one) for one in ("lubeck", "bergen"))

    (found,) = findings(read("lubeck", *web("lubeck", conditions=())), broker(*beats, paused=True))

    assert found.code == "FleetPaused"
    assert [c.summary for c in found.consequences] == [
        "no agent has looked at the export of shop/web in lubeck"
    ]


def test_what_has_to_be_edited_is_named_with_its_cluster_and_group() -> None:
    policy = AntreaNetworkPolicy(
        metadata=Meta(name="machines", namespace="shop"),
        spec={"appliedTo": [{"externalEntitySelector": {}}]},
    )

    (found,) = findings(read("lubeck", policy))

    assert found.code == "PolicyNotEnforced"
    edit = "kubectl --context lubeck -n shop edit networkpolicies.crd.antrea.io machines"
    assert f"`{edit}`" in found.remedy.advice


JOIN_AGAIN = "hanse join --federation league --cluster-id b --context b --supervisor lubeck"


@pytest.mark.parametrize(
    ("reason", "code", "commands"),
    [
        ("", "LinkCut", ("hanse local heal lubeck b", JOIN_AGAIN)),  # its address may be wrong
        ("CredentialsRejected", "TokenRevoked", (JOIN_AGAIN,)),
        ("AgentForbidden", "TokenRevoked", (JOIN_AGAIN,)),
        ("CertificateUntrusted", "LinkCut", (JOIN_AGAIN,)),
    ],
)
def test_a_link_that_an_agent_reports_as_cut_is_the_cause(
    reason: str, code: str, commands: tuple[str, ...]
) -> None:
    lost = MemberState(cluster_id="b", reason=reason, message="why, and perhaps `hanse join`")
    unreachable = condition("MembersReachable", False, "MemberUnreachable", "b")
    league = Federation(
        metadata=Meta(name="league"),
        status=FederationStatus(members=(lost,), conditions=(unreachable,)),
    )

    (found,) = findings(read("lubeck", league), read("b"))

    assert (found.code, str(found.subject)) == (code, "Link lubeck-b in lubeck")
    assert found.remedy.commands == commands
    assert [c.subject.kind for c in found.consequences] == ["Federation"]


def test_a_member_under_another_id_than_its_own_is_renamed_and_explains_lists_that_differ() -> None:
    says = "spec.members[2].clusterID: the cluster at https://b:6443 says that it is 'b'"
    wrong = condition("Valid", False, "ClusterIDMismatch", says)
    join = "hanse join --federation league --cluster-id c --context c --supervisor lubeck"
    differ = condition("MembersDiffer", True, "MembersDiffer", f"lubeck names c: {join}, or not")
    league = Federation(
        metadata=Meta(name="league"), status=FederationStatus(conditions=(wrong, differ))
    )

    (found,) = findings(read("lubeck", league))

    assert found.code == "FederationInvalid"
    patch = '[{"op": "replace", "path": "/spec/members/2/clusterID", "value": "b"}]'
    assert found.remedy.commands == (
        f"kubectl --context lubeck patch federation league --type json -p '{patch}'",
    )
    assert len(found.consequences) == 1


def test_exports_tell_that_a_cluster_which_is_gone_is_the_broker() -> None:
    cut = condition("Ready", None, "Disconnected", "the broker is not reached")
    away = [read(name, *web(name, conditions=(GOOD[0], cut))) for name in ("lubeck", "bergen")]

    codes = [f.code for f in findings(*away, ClusterRead("broker", failure="refused"))]

    assert codes == ["BrokerLost"]


def test_a_service_that_only_a_dead_cluster_served_makes_it_an_outage() -> None:
    alone = read("lubeck", *web("bergen", ready=False)[2:])
    dead = ClusterRead("bergen", failure="connection refused")

    (found,) = findings(alone, dead, broker(lease("bergen", "hanse-broker", "bergen", age=41)))

    assert (found.code, found.severity) == ("ClusterUnreachable", Severity.OUTAGE)


NO_SERVICE = (condition("Valid", False, "NoService", "there is no Service web here"),)
CONFLICT = (*GOOD, condition("Conflict", True, "PortConflict", "bergen has 81"))
IGNORED = condition(
    "SettingsValid", False, "InvalidSetting", "annotation services.hanse.dev/weight: 'x' is none"
)
ONE = "lubeck"
READY_NODE = Node(
    metadata=Meta(name="n2"),
    status=NodeStatus(conditions=(ObservedCondition(type="Ready", status="True"),)),
)


@pytest.mark.parametrize(
    ("cluster", "code", "severity", "command"),
    [
        pytest.param(
            read(ONE, agent=None), "AgentMissing", "degraded", "start agent lubeck", id="no agent"
        ),
        pytest.param(
            read(ONE, agent=60), "AgentSilent", "degraded", "start agent lubeck", id="agent died"
        ),
        pytest.param(
            read(ONE, Namespace(metadata=Meta(name="hanse-system", annotations={PAUSED: "true"}))),
            "AgentPaused",
            "degraded",
            "kubectl --context lubeck annotate namespace hanse-system hanse.dev/paused-",
            id="paused agent",
        ),
        pytest.param(
            broker(paused=True),
            "FleetPaused",
            "degraded",
            "kubectl --context broker patch clusterset hanse --type merge "
            """-p '{"spec":{"paused":false}}'""",
            id="paused fleet",
        ),
        pytest.param(
            read(
                ONE,
                Node(metadata=Meta(name="n1")),
                Node(
                    metadata=Meta(name="n2"),
                    status=NodeStatus(conditions=(ObservedCondition(type="Ready", status="True"),)),
                ),
            ),
            "NodesNotReady",
            "risk",
            "ask the administrator of lubeck",
            id="a node",
        ),
        pytest.param(
            ClusterRead(ONE, failure="Unauthorized", refused=True),
            "CredentialsRefused",
            "degraded",
            "ask the administrator of lubeck",
            id="credentials",
        ),
        pytest.param(
            read(ONE, agent_forbidden=("networks", "pods"), features=("services", "networks")),
            "AgentForbidden",
            "degraded",
            "hanse manifests --cluster-id lubeck --features services,networks --rights | "
            "kubectl --context lubeck apply -f -",
            id="an agent without rights",
        ),
        pytest.param(
            read(ONE, denied={Secret.kind: "secrets is forbidden"}),
            "NotReadable",
            "risk",
            "ask the administrator of lubeck",
            id="forbidden",
        ),
        pytest.param(
            read(ONE, *web(ONE, ready=False)),
            "NoEndpoints",
            "outage",
            "kubectl --context lubeck -n shop rollout restart deployment,statefulset -l app=web",
            id="no endpoints",
        ),
        pytest.param(
            read(ONE, web(conditions=NO_SERVICE)[1]),
            "ExportInvalid",
            "degraded",
            "kubectl --context lubeck -n shop delete serviceexport web",
            id="no Service",
        ),
        pytest.param(
            read(ONE, *web(ONE, conditions=CONFLICT)),
            "PortConflict",
            "risk",
            "kubectl --context lubeck -n shop delete serviceexport web",
            id="conflict",
        ),
        pytest.param(
            read(ONE, *web(ONE, conditions=(*GOOD, IGNORED))),
            "SettingIgnored",
            "risk",
            "kubectl --context lubeck -n shop annotate serviceexport web "
            "services.hanse.dev/weight-",
            id="a setting",
        ),
        pytest.param(
            read(ONE, *web(ONE, conditions=())),
            "ExportUnseen",
            "degraded",
            "",
            id="nobody looked at it",
        ),
    ],
)
def test_each_fault_has_its_finding_and_the_command_that_mends_it(
    cluster: ClusterRead, code: str, severity: str, command: str
) -> None:
    (found,) = findings(cluster)

    assert (found.code, found.severity) == (code, severity)
    assert command in str(found.remedy)
    assert Report((ONE,), (found,)).failed


def test_an_agent_that_released_its_lease_does_not_run() -> None:
    released = lease("hanse-agent", "hanse-system", "")

    (found,) = findings(read(ONE, released, agent=None), local=False)

    assert found.code == "AgentSilent"
    assert "rollout restart deployment/hanse-agent" in found.remedy.commands[0]


def test_what_is_forbidden_is_not_known_and_not_absent() -> None:
    (found,) = findings(read(ONE, agent=None, denied={Lease.kind: "leases is forbidden"}))

    assert found.certainty == Unknown("leases is forbidden")
    assert found.code == "NotReadable", "and not AgentMissing, whose remedy starts a second agent"


async def test_a_kind_that_the_server_fails_to_list_takes_no_other_with_it() -> None:
    class Failing:
        async def send(self, request: Request) -> Response:
            status = 500 if "serviceimports" in request.path else 200
            return Response(status, b'{"metadata": {"resourceVersion": "1"}, "items": []}')

        def stream(self, request: Request) -> Any:
            raise NotImplementedError(request)

        async def close(self) -> None: ...

    access = ClusterAccess(
        "lubeck", StaticCredentials(ClientConfig(ServerEndpoint("https://a.test")))
    )
    found = await read_objects(access, Client(Failing()))

    assert (set(found.denied), found.failure) == ({ServiceImport.kind}, "")
    assert found.lists


@pytest.mark.parametrize(("code", "refused"), [(500, False), (429, False), (401, True)])
def test_a_server_that_fails_has_refused_no_credentials(code: int, refused: bool) -> None:
    error = error_from_response(Response(code, b"{}"))

    assert unread(ReadFailure("lubeck", error)).refused is refused


def test_a_lease_is_missing_by_itself_unless_the_brokers_namespace_is() -> None:
    check = Check("hub", "rome has joined", "hanse join", "LeaseMissing", of_namespace=True)
    silent = Finding(
        code="AgentSilent", severity=Severity.OUTAGE, subject=cluster_ref("hub"), summary="silent"
    )

    assert len(judge((silent, as_finding(check, (), {})))) == 2
    assert len(judge((silent, as_finding(check, {cluster_ref("hub")}, {})))) == 1


def test_an_import_of_somebody_else_is_in_the_way() -> None:
    foreign = replace(web("bergen")[2], metadata=Meta(name="web", namespace="shop"))
    importing = read("lubeck", foreign, slice_("bergen", True))

    (found,) = findings(importing, read("bergen", *web("bergen")))

    assert (found.code, found.subject.cluster) == ("ImportBlocked", "lubeck")
    assert found.remedy.commands == ("kubectl --context lubeck -n shop delete serviceimport web",)


def test_a_cluster_is_known_by_the_id_of_its_agent_and_asked_by_its_context() -> None:
    (found,) = findings(replace(read("lubeck", *web("lubeck", ready=False)), context="admin@lub"))

    assert found.remedy.commands[0].startswith("kubectl --context admin@lub -n shop ")
