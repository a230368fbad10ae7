"""Whoever holds a token tries everything: what others run, resolve and own stays as it was."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from hanse import app
from hanse.cli.apply import apply
from hanse.cli.join.guard import supervisors_attack
from hanse.features.federation import manifests as federation
from hanse.features.gslb.manifests import leader_account
from hanse.features.services import manifests as services
from hanse.kube.client import Client
from hanse.kube.errors import Throttled
from hanse.kube.transport import MERGE_PATCH, Request, Transport
from hanse.local.real.fleet import NAMES, RealFleet
from hanse.model.crds import placeholder_crds
from tests.real import adversary_attacks as attacks
from tests.real import adversary_table as table
from tests.real.adversary import (
    DRY,
    Accepted,
    Wire,
    attack_everything,
    attacked_resources,
    offered_writes,
    snapshot,
    transport_with,
    unrefused,
)
from tests.real.adversary_attacks import SHOP
from tests.real.api_requests import get, post
from tests.real.conftest import Kubectl
from tests.real.joined_fleet import (
    ACCOUNTS_NAMESPACE,
    BROKER_NAMESPACE,
    SOURCE,
    JoinedFleet,
    joined_fleet,
    stateful_set,
)

pytestmark = pytest.mark.anyio

AVI = "avi-system"

_NAMESPACED = (
    f"/api/v1/namespaces/{SHOP}/services",
    f"/api/v1/namespaces/{SHOP}/pods",
    f"/apis/discovery.k8s.io/v1/namespaces/{SHOP}/endpointslices",
    f"/apis/apps/v1/namespaces/{SHOP}/statefulsets",
)
_AT_HOME = (
    *_NAMESPACED,
    f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{SHOP}/serviceimports",
)
_AT_BROKER = (
    *_NAMESPACED,
    "/api/v1/namespaces",
    f"/apis/discovery.k8s.io/v1/namespaces/{BROKER_NAMESPACE}/endpointslices",
    f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{BROKER_NAMESPACE}/serviceimports",
    f"/apis/hanse.dev/v1alpha1/namespaces/{BROKER_NAMESPACE}/statefulsetparts",
    f"/apis/hanse.dev/v1alpha1/namespaces/{SHOP}/federatedstatefulsets",
    f"/apis/hanse.dev/v1alpha1/namespaces/{SHOP}/statefulsetshares",
    "/apis/hanse.dev/v1alpha1/clustersets",
    f"/api/v1/namespaces/{ACCOUNTS_NAMESPACE}/serviceaccounts",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
)


class Scene(Struct):
    """A fleet with something to steal, and administrators' transports to look at it."""

    fleet: JoinedFleet
    admins: dict[str, Transport]

    @property
    def broker(self) -> Transport:
        return self.admins["broker"]

    async def state(self) -> dict[str, list[bytes]]:
        """What the others run, resolve and own, byte for byte."""
        others = {c: self.admins[c] for c in ("hamburg", "bergen")}
        broker = {"broker": self.broker}
        return {**await snapshot(others, _AT_HOME), **await snapshot(broker, _AT_BROKER)}

    async def published_slice(self, cluster: str) -> str:
        """The name of a slice that the agent of a cluster has published."""
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{BROKER_NAMESPACE}/endpointslices"
        found = await get(self.broker, f"{slices}?labelSelector={SOURCE}%3D{cluster}")
        return str(found["items"][0]["metadata"]["name"])

    async def settled(self) -> dict[str, list[bytes]]:
        """The state once it has not changed for two seconds."""
        before = await self.state()
        for _ in range(60):
            await asyncio.sleep(2)
            after = await self.state()
            if after == before:
                return after
            before = after
        raise AssertionError("the fleet does not settle")


@pytest.fixture(scope="module")
async def scene(
    real_clusters: RealFleet, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Scene]:
    """Members with a Service that hamburg exports, and sets that people submitted."""
    folder = tmp_path_factory.mktemp("adversary")
    async with joined_fleet(real_clusters, folder, kubectl) as fleet:
        admins = {name: real_clusters.clusters[name].connect() for name in (*NAMES, "broker")}
        try:
            await _people_submit(fleet, admins)
            await _await_pods(admins)
            yield Scene(fleet, admins)
        finally:
            for name, transport in admins.items():
                await fleet.on(name, "delete", "namespace", SHOP, "--wait=false")
                await transport.close()


async def _people_submit(fleet: JoinedFleet, admins: dict[str, Transport]) -> None:
    """Namespaces, an exported Service, StatefulSets and Services of people."""
    for name, admin in admins.items():
        labels = {"hanse.dev/accept": "true"}
        space = {"kind": "Namespace", "metadata": {"name": SHOP, "labels": labels}}
        await post(admin, "/api/v1/namespaces", {"apiVersion": "v1", **space})
        if name != "broker":
            await fleet.on(name, "-n", SHOP, "create", "deployment", "web", "--image=web")
            await fleet.on(name, "-n", SHOP, "expose", "deployment", "web", "--port=80")
    own = ("expose", "deployment", "web", "--port=80", "--name=own")
    await fleet.on("lubeck", "-n", SHOP, *own)
    path = f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{SHOP}/serviceexports"
    for cluster, name in (("hamburg", "web"), ("lubeck", "own")):
        export = {"kind": "ServiceExport", "metadata": {"name": name}}
        body = {"apiVersion": "multicluster.x-k8s.io/v1alpha1", **export}
        await post(admins[cluster], path, body)
    broker = admins["broker"]
    headless: Wire = {"clusterIP": "None"}
    balanced: Wire = {"type": "LoadBalancer"}
    for name, more in (("store", headless), ("ledger", headless), ("front", balanced)):
        spec = {"ports": [{"port": 80}], **more}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        await post(broker, f"/api/v1/namespaces/{SHOP}/services", service)
    store = stateful_set("store", {}).replace('"namespace":"default"', f'"namespace":"{SHOP}"')
    await fleet.on("broker", "create", "-f", "-", stdin=store)
    ledger = attacks.federated_set("ledger", SHOP, None)
    sets = f"/apis/hanse.dev/v1alpha1/namespaces/{SHOP}/federatedstatefulsets"
    await post(broker, sets, ledger)


async def _await_pods(admins: dict[str, Transport]) -> None:
    """Wait until the sets run and the import is there."""
    imports = f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{SHOP}/serviceimports"
    for _ in range(120):
        with suppress(Throttled):  # a kind that has just been defined
            sets = await get(admins["hamburg"], f"/apis/apps/v1/namespaces/{SHOP}/statefulsets")
            found = (await get(admins["bergen"], imports))["items"]
            if len(found) == 2 and any(one["status"].get("readyReplicas") for one in sets["items"]):
                return
        await asyncio.sleep(0.5)
    raise AssertionError("nothing runs that could be attacked")


@pytest.fixture(scope="module", params=["running", "stopped"])
async def agents(request: pytest.FixtureRequest, scene: Scene) -> str:
    """The attacks are made while agents run, and again when none does."""
    if request.param == "stopped":
        for cluster in NAMES:
            await scene.fleet.stop_agent(cluster)
    return str(request.param)


@pytest.fixture(scope="module")
async def member(scene: Scene) -> AsyncIterator[Transport]:
    """The token that `hanse join` gave lubeck, in the wrong hands."""
    text = scene.fleet.broker_kubeconfig("lubeck").read_bytes()
    token = msgspec.json.decode(text)["users"][0]["user"]["token"]
    transport = transport_with(scene.fleet.real.broker, token)
    yield transport
    await transport.close()


def _is_lubecks(obj: Wire) -> bool:
    """Whether an object on the broker is lubeck's own, and nobody else's business."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    return (
        (metadata.get("labels") or {}).get(SOURCE) == "lubeck"
        or obj.get("spec", {}).get("cluster") == "lubeck"
        or obj.get("reportingInstance") == "lubeck"
        or metadata["name"] == "lubeck"
        or '"for":"lubeck"' in annotations.get("hanse.dev/owner-key", "")
    )


def _is_untrusted(accepted: Accepted) -> bool:
    """Whether it is one of the objects that several members write, and nobody acts on."""
    free = {"metadata.labels", "metadata.annotations"}
    changed = set(accepted.changed)
    if f"/namespaces/{BROKER_NAMESPACE}/serviceimports" in accepted.path:
        return changed <= {*free, "spec", "status", "POST", "DELETE"}
    if "/statefulsetshares/" in accepted.path:
        return changed <= {*free, "spec"}
    if accepted.path.endswith("/status") and "statefulsets/" in accepted.path:
        return changed <= {"status"}
    return False


async def test_nothing_that_the_broker_offers_touches_others(
    scene: Scene, member: Transport, agents: str
) -> None:
    accepted = await attack_everything(scene.broker, member, _is_lubecks)

    assert [one for one in accepted if not _is_untrusted(one)] == []
    assert accepted, "what several members write is accepted: the attacks do arrive"


async def test_every_right_that_the_broker_offers_a_member_is_attacked(
    scene: Scene, member: Transport
) -> None:
    """By the server's own word, not by our declaration: a new right needs an object to attack."""
    spaces = (BROKER_NAMESPACE, ACCOUNTS_NAMESPACE, SHOP, "default", "kube-system")

    offered = await offered_writes(member, spaces)
    attacked = await attacked_resources(scene.broker, _is_lubecks)

    assert {one.verb for one in offered} == {"create", "patch", "delete"}
    assert {one.resource for one in offered} - attacked == set()
    assert {one.names for one in offered} == {(), ("lubeck",)}


async def test_attacks_with_a_members_token_are_refused_and_change_nothing(
    scene: Scene, member: Transport, agents: str
) -> None:
    before = await scene.settled()
    tried = [
        *attacks.workload_attacks(),
        *attacks.service_attacks(),
        *attacks.slice_attacks(await scene.published_slice("hamburg")),
        *attacks.account_attacks(),
        *table.member_table(await scene.published_slice("lubeck")),
    ]

    failed = await unrefused(member, tried)
    after = await scene.settled()

    assert failed == []
    assert len(tried) > 110
    assert after == before


async def test_a_quota_bounds_what_a_member_creates(scene: Scene, member: Transport) -> None:
    """As the security guide advises; what is there stays."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{BROKER_NAMESPACE}/endpointslices"
    present = len((await get(scene.broker, path))["items"])
    counted, on_broker = "count/endpointslices.discovery.k8s.io", ("broker", "-n", BROKER_NAMESPACE)
    await scene.fleet.on(
        *on_broker, "create", "quota", "members", f"--hard={counted}={present + 2}"
    )
    quotas = f"/api/v1/namespaces/{BROKER_NAMESPACE}/resourcequotas/members"
    while counted not in (await get(scene.broker, quotas)).get("status", {}).get("used", {}):  # noqa: ASYNC110 - polls
        await asyncio.sleep(0.2)

    answers = [
        await member.send(Request("POST", path, body=msgspec.json.encode(_flood(number))))
        for number in range(4)
    ]
    await scene.fleet.on(*on_broker, "delete", "quota", "members")
    await scene.fleet.on(*on_broker, "delete", "endpointslices", "-l", "flood=true")

    assert [one.status for one in answers] == [201, 201, 403, 403]
    assert b"exceeded quota: members" in answers[-1].body


def _flood(number: int) -> Wire:
    """A slice of lubeck's own."""
    labels = {SOURCE: "lubeck", "flood": "true"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"lubeck.flood-{number}", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [],
    }


async def test_nobody_follows_a_false_aggregate(
    scene: Scene, member: Transport, agents: str
) -> None:
    before = await snapshot({"bergen": scene.admins["bergen"]}, _AT_HOME)
    imports = f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{BROKER_NAMESPACE}/serviceimports"
    aggregate, *_ = (await get(scene.broker, imports))["items"]
    name = aggregate["metadata"]["name"]
    lie = {"spec": {"ports": [{"port": 6666, "protocol": "TCP"}]}}

    body = msgspec.json.encode(lie)
    answer = await member.send(Request("PATCH", f"{imports}/{name}", (), body, MERGE_PATCH))
    await asyncio.sleep(3)

    assert answer.status == 200
    assert await snapshot({"bergen": scene.admins["bergen"]}, _AT_HOME) == before
    if agents == "running":
        after = await get(scene.broker, f"{imports}/{name}")
        assert after["spec"] == aggregate["spec"], "an agent corrects it"
    restored = msgspec.json.encode({"spec": aggregate["spec"]})
    await scene.broker.send(Request("PATCH", f"{imports}/{name}", (), restored, MERGE_PATCH))


async def _token(admin: Transport, namespace: str, account: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer: Any = await post(admin, path, kind)
    return str(answer["status"]["token"])


async def test_a_former_member_has_no_rights_left(scene: Scene) -> None:
    access = app.broker_access(app.Options(broker_namespace=BROKER_NAMESPACE))
    objects = services.member(access, BROKER_NAMESPACE, "visby", "uid", new=True)
    await apply(Client(scene.broker), objects)
    token = await _token(scene.broker, ACCOUNTS_NAMESPACE, "visby")
    former = transport_with(scene.fleet.real.broker, token)
    listed = f"/apis/discovery.k8s.io/v1/namespaces/{BROKER_NAMESPACE}/endpointslices"
    joined = (await former.send(Request("GET", listed))).status

    selector = ("-l", "hanse.dev/member=visby")
    bindings = "role,rolebinding,clusterrolebinding,lease"
    for namespace in (BROKER_NAMESPACE, ACCOUNTS_NAMESPACE):
        await scene.fleet.on("broker", "-n", namespace, "delete", bindings, *selector)
    accepted = await attack_everything(scene.broker, former, lambda _: False)
    own = await scene.published_slice("lubeck")
    tried = (*attacks.workload_attacks(), *attacks.account_attacks(), *table.member_table(own))
    failed = await unrefused(former, tried)
    read = (await former.send(Request("GET", listed))).status
    await scene.fleet.on("broker", "-n", ACCOUNTS_NAMESPACE, "delete", "serviceaccount", *selector)
    gone = (await former.send(Request("GET", listed))).status
    await former.close()

    assert (joined, accepted, failed, read) == (200, [], [], 403)
    assert gone in (401, 403), "the API server remembers tokens for seconds"


@pytest.fixture(scope="module")
async def supervisor(scene: Scene) -> AsyncIterator[Transport]:
    """A supervisor's token in bergen, where users have Services and policies."""
    admin = scene.admins["bergen"]
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for definition in placeholder_crds():
        await admin.send(Request("POST", crds, body=msgspec.json.encode(definition)))
    rules = federation.rules_for(app.watches(), "bergen", "lubeck")
    policies = federation.supervisor_policies(app.supervisor_rules(), "bergen")
    made = (*federation.account_manifests(rules, "lubeck"), *policies)
    await apply(Client(admin), made)
    spec = {"ports": [{"port": 80}], "type": "LoadBalancer"}
    gate = {"kind": "Service", "metadata": {"name": "gate"}, "spec": spec}
    await post(admin, f"/api/v1/namespaces/{SHOP}/services", {"apiVersion": "v1", **gate})
    antrea = "/apis/crd.antrea.io/v1beta1"
    for kind, path in (
        ("ClusterNetworkPolicy", f"{antrea}/clusternetworkpolicies"),
        ("NetworkPolicy", f"{antrea}/namespaces/{SHOP}/networkpolicies"),
    ):
        policy = {"kind": kind, "metadata": {"name": "deny"}, "spec": {"priority": 5}}
        await post(admin, path, {"apiVersion": "crd.antrea.io/v1beta1", **policy})
    await post(admin, f"/api/v1/namespaces/{SHOP}/events", _event_of("bergen"))
    token = await _token(admin, "antrea-plus-system", "hanse-supervisor-lubeck")
    transport = transport_with(scene.fleet.real.clusters["bergen"], token)
    refusal = b"ValidatingAdmissionPolicy"
    while refusal not in (await transport.send(supervisors_attack())).body:  # noqa: ASYNC110 - polls
        await asyncio.sleep(0.2)  # as `hanse join` waits
    yield transport
    await transport.close()
    everything = "validatingadmissionpolicy,validatingadmissionpolicybinding"
    await scene.fleet.on("bergen", "delete", everything, "-l", "app.kubernetes.io/part-of=hanse")
    for kind in ("clusterrole", "clusterrolebinding"):
        await scene.fleet.on("bergen", "delete", kind, "hanse-supervisor-lubeck")
    await scene.fleet.on("bergen", "delete", "clusternetworkpolicies.crd.antrea.io", "deny")
    await scene.fleet.on("bergen", "delete", "namespace", "antrea-plus-system", "--wait=false")


def _event_of(reporter: str) -> Wire:
    """An Event that the agent of a cluster recorded there."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"an-event.{reporter}", "namespace": SHOP},  # of few per namespace
        "involvedObject": {"apiVersion": "v1", "kind": "Service", "namespace": SHOP, "name": "web"},
        "reason": "Conflict",
        "message": "ports differ",
        "type": "Warning",
        "reportingComponent": "hanse",
        "reportingInstance": reporter,
    }


def _is_leaders_own(obj: Wire) -> bool:
    """Whether an object in a member is the business of its leaders, such as lubeck's own Events."""
    metadata = obj["metadata"]
    labels: dict[str, str] = metadata.get("labels") or {}
    is_own_account = metadata["name"] == "hanse-supervisor-lubeck"
    if is_own_account or obj.get("reportingInstance") == "lubeck":
        return True
    return labels.get("hanse.dev/owner", "").startswith("federated-")


async def test_a_supervisor_touches_nothing_of_users(scene: Scene, supervisor: Transport) -> None:
    async def state() -> dict[str, list[bytes]]:
        paths = (*_AT_HOME, "/apis/crd.antrea.io/v1beta1/clusternetworkpolicies")
        return await snapshot({"bergen": scene.admins["bergen"]}, paths)

    before = await state()
    for _ in range(30):  # until the load balancer has its address
        await asyncio.sleep(0.5)
        if (after := await state()) == before:
            break
        before = after
    tried = (*attacks.supervisor_attacks(), *table.table_in_a_member())
    failed = await unrefused(supervisor, tried)
    accepted = await attack_everything(scene.admins["bergen"], supervisor, _is_leaders_own)

    assert failed == []
    assert [one for one in accepted if not _is_leaders(one)] == []
    assert await state() == before


def _is_leaders(accepted: Accepted) -> bool:
    """Whether it is something that leaders write at objects of users: conditions."""
    path = accepted.path
    is_status = path.endswith("/status") and set(accepted.changed) <= {"status"}
    return is_status and ("/services/" in path or "/nativeservices/" in path)


@pytest.fixture(scope="module")
async def leader(scene: Scene, supervisor: Transport) -> AsyncIterator[Transport]:
    """The token of a GSLB leader in bergen, where the definitions and an Event are there."""
    admin, account = scene.admins["bergen"], "adversary-leader"
    await apply(Client(admin), leader_account(account))
    await post(admin, f"/api/v1/namespaces/{AVI}/configmaps", _config_map("users"))
    transport = transport_with(
        scene.fleet.real.clusters["bergen"], await _token(admin, AVI, account)
    )
    maps = f"/api/v1/namespaces/{AVI}/configmaps"
    attack = Request("POST", maps, DRY, msgspec.json.encode(_config_map("evil")))
    while b"ValidatingAdmissionPolicy" not in (await transport.send(attack)).body:  # noqa: ASYNC110 - polls
        await asyncio.sleep(0.2)
    yield transport
    await transport.close()
    for kind in ("clusterrole", "clusterrolebinding"):
        await scene.fleet.on("bergen", "delete", kind, f"hanse-{account}")
    in_avi = ("bergen", "-n", AVI, "delete")
    await scene.fleet.on(*in_avi, "role,rolebinding", f"hanse-{account}")
    await scene.fleet.on(*in_avi, "serviceaccount", account)
    await scene.fleet.on(*in_avi, "configmap", "users")


def _config_map(name: str) -> Wire:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}}


async def test_a_global_leader_writes_copies_of_its_own_objects_alone(
    scene: Scene, leader: Transport
) -> None:
    """Events of others it may count, as the recorder of all agents does, and not change."""
    admin, events = scene.admins["bergen"], f"/api/v1/namespaces/{SHOP}/events"
    counted = Request(
        "PATCH", f"{events}/an-event.bergen", DRY, msgspec.json.encode({"count": 7}), MERGE_PATCH
    )

    before = await snapshot({"bergen": admin}, _AT_HOME)
    failed = await unrefused(leader, table.leader_table())
    accepted = await attack_everything(admin, leader, lambda _: False)

    assert failed == []
    assert [one for one in accepted if not _is_copy(one)] == []
    assert await snapshot({"bergen": admin}, _AT_HOME) == before
    assert (await leader.send(counted)).status == 200


def _is_copy(accepted: Accepted) -> bool:
    """Whether it is a copy of the leader's own kinds in their namespace, its Event or its token.

    Or a count of another's Event.
    """
    path = accepted.path
    if "/events/" in path:
        return accepted.changed == ("count",)
    if path.endswith(("/events", "/adversary-leader/token")):
        return accepted.changed == ("POST",)
    return f"/namespaces/{AVI}/" in path and (".vmware.com/" in path or "/globalservices" in path)


async def test_an_administrator_of_a_namespace_stays_in_it(scene: Scene) -> None:
    """A tenant with the ClusterRole `admin` in one namespace of a member."""
    tenant = ("bergen", "-n", SHOP, "create")
    await scene.fleet.on(*tenant, "serviceaccount", "tenant")
    bound = ("--clusterrole=admin", f"--serviceaccount={SHOP}:tenant")
    await scene.fleet.on(*tenant, "rolebinding", "tenant", *bound)
    token = await _token(scene.admins["bergen"], SHOP, "tenant")
    transport = transport_with(scene.fleet.real.clusters["bergen"], token)
    before = await snapshot({"bergen": scene.admins["bergen"]}, _AT_HOME)

    failed = await unrefused(transport, table.tenant_table())
    own = (await transport.send(Request("GET", f"/api/v1/namespaces/{SHOP}/secrets"))).status
    await transport.close()

    assert (failed, own) == ([], 200)
    assert await snapshot({"bergen": scene.admins["bergen"]}, _AT_HOME) == before
