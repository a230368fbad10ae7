"""A broker and its members on real clusters: RBAC and admission of members."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from hanse.kube.client import Client
from hanse.kube.credentials import from_files
from hanse.kube.http_transport import HttpTransport
from hanse.kube.token_renewal import (
    FileTokenStore,
    SecretTokenStore,
    ServiceAccountName,
    TokenRenewer,
)
from hanse.local.real.fleet import NAMES, RealFleet
from tests.real.conftest import CommandResult, Kubectl
from tests.real.earlier_version import earlier_source
from tests.real.joined_fleet import (
    ACCOUNTS_NAMESPACE,
    BROKER_NAMESPACE,
    SOURCE,
    JoinedFleet,
    derived_service,
    endpoint_slice,
    joined_fleet,
    owner_key,
    parse_json,
    stateful_set,
)

UNTIL = "--timeout=60s"

pytestmark = pytest.mark.anyio


class AheadClock(Struct, frozen=True):
    """A clock that is ahead of the wall clock."""

    by: timedelta

    def now(self) -> datetime:
        return datetime.now(UTC) + self.by


@pytest.fixture(scope="module")
async def fleet(
    real_clusters: RealFleet, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[JoinedFleet]:
    async with joined_fleet(real_clusters, tmp_path_factory.mktemp("members"), kubectl) as fleet:
        yield fleet


@pytest.fixture(scope="module")
async def exported(fleet: JoinedFleet) -> CommandResult:
    """A Service that lubeck and hamburg export; the output of `hanse export` for lubeck."""
    for cluster in NAMES:
        await fleet.on(cluster, "create", "namespace", "shop")
    for cluster in ("hamburg", "lubeck"):
        await fleet.on(cluster, "-n", "shop", "create", "deployment", "web", "--image=web")
        await fleet.on(cluster, "-n", "shop", "expose", "deployment", "web", "--port=80")
        await fleet.on(cluster, "-n", "shop", "rollout", "status", "deployment/web", UNTIL)
        result = await fleet.hanse("export", "web", "-n", "shop", "--context", cluster)
        assert result.status == 0, result.output + result.errors
    return result


async def _slice_names(fleet: JoinedFleet, cluster: str) -> list[str]:
    query = (
        "-n",
        BROKER_NAMESPACE,
        "get",
        "endpointslices",
        "-l",
        f"{SOURCE}={cluster}",
        "-o",
        "json",
    )
    return [
        one["metadata"]["name"] for one in parse_json(await fleet.on("broker", *query))["items"]
    ]


async def test_an_export_is_visible_in_every_cluster(
    fleet: JoinedFleet, exported: CommandResult
) -> None:
    assert exported.output.startswith("shop/web is exported by hamburg, lubeck\n")

    for cluster in NAMES:
        second = "--for=jsonpath={.status.clusters[1].cluster}=lubeck"
        for sign in ("--for=create", second):  # waiting for a field fails where nothing is yet
            waited = await fleet.on(cluster, "-n", "shop", "wait", "serviceimport/web", sign, UNTIL)
            assert waited.status == 0, waited.errors


async def test_status_shows_the_service_once(fleet: JoinedFleet, exported: CommandResult) -> None:
    (web,) = await _status_of_web(fleet)
    async with asyncio.timeout(60):  # whose server or Lease is late on a busy machine is shown lost
        while web["exporters"] == [] and web["findings"]:
            (web,) = await _status_of_web(fleet)

    assert web["exporters"] == ["hamburg", "lubeck"], web
    assert web["endpoints"]["lubeck"] == {"ready": 1, "all": 1}
    assert web["problems"] == []


async def _status_of_web(fleet: JoinedFleet) -> list[Any]:
    services = parse_json(await fleet.hanse("status", "--json"))["services"]
    return [one for one in services if one["name"] == "web"]


async def test_joining_again_changes_nothing(fleet: JoinedFleet) -> None:
    result = await fleet.join("lubeck")

    assert result.output.startswith("broker: nothing to change\nlubeck: nothing to change\n")


async def test_an_agent_sends_no_forbidden_requests(
    fleet: JoinedFleet, exported: CommandResult
) -> None:
    logs = [(fleet.folder / f"{cluster}.log").read_text().lower() for cluster in NAMES]

    assert all("agent runs" in log for log in logs)
    refusals = ("forbidden", "denied", "may not read")
    assert not [log for log in logs if any(word in log for word in refusals)]


async def test_every_member_renews_its_own_lease(
    fleet: JoinedFleet, exported: CommandResult
) -> None:
    for cluster in NAMES:
        renewed = f"--for=jsonpath={{.spec.holderIdentity}}={cluster}"
        waited = await fleet.on(
            "broker", "-n", BROKER_NAMESPACE, "wait", f"lease/{cluster}", renewed, UNTIL
        )
        assert waited.status == 0, waited.errors


async def test_a_member_writes_slices_of_its_own_cluster_and_its_agent_withdraws_others(
    fleet: JoinedFleet,
) -> None:
    made = await fleet.as_member(
        "lubeck", "create", "-f", "-", stdin=endpoint_slice("own", "lubeck")
    )
    gone = await fleet.as_member("lubeck", "wait", "--for=delete", "endpointslice/own", UNTIL)

    assert (made.status, gone.status) == (0, 0), made.errors + gone.errors


async def test_a_member_cannot_write_a_slice_of_another_cluster(fleet: JoinedFleet) -> None:
    result = await fleet.as_member(
        "lubeck", "create", "-f", "-", stdin=endpoint_slice("false", "hamburg")
    )

    assert result.status == 1
    assert f"label {SOURCE} must be lubeck" in result.errors


async def test_a_member_cannot_write_a_slice_without_a_source_cluster(fleet: JoinedFleet) -> None:
    bare = endpoint_slice("bare", "lubeck").replace(SOURCE, "other")

    result = await fleet.as_member("lubeck", "create", "-f", "-", stdin=bare)

    assert f"label {SOURCE} must be lubeck" in result.errors


_THEFT = f'{{"metadata":{{"labels":{{"{SOURCE}":"lubeck"}}}}}}'


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(("patch", "--type=merge", "-p", '{"endpoints":[]}'), id="changed"),
        pytest.param(("patch", "--type=merge", "-p", _THEFT), id="taken over"),
        pytest.param(("delete",), id="deleted"),
    ],
)
async def test_anothers_slice_cannot_be(
    fleet: JoinedFleet, exported: CommandResult, attempt: tuple[str, ...]
) -> None:
    (theirs,) = await _slice_names(fleet, "hamburg")
    verb, *rest = attempt

    result = await fleet.as_member("lubeck", verb, "endpointslice", theirs, *rest)

    assert f"label {SOURCE} must be lubeck" in result.errors
    assert await _slice_names(fleet, "hamburg") == [theirs]


async def test_a_member_cannot_change_the_source_cluster_of_its_slice(
    fleet: JoinedFleet, exported: CommandResult
) -> None:
    (own,) = await _slice_names(fleet, "lubeck")
    gift = _THEFT.replace("lubeck", "hamburg")

    result = await fleet.as_member(
        "lubeck", "patch", "endpointslice", own, "--type=merge", "-p", gift
    )

    assert f"label {SOURCE} must be lubeck" in result.errors


async def test_a_member_cannot_renew_anothers_lease(fleet: JoinedFleet) -> None:
    change = '{"spec":{"leaseDurationSeconds":3600}}'

    result = await fleet.as_member(
        "lubeck", "patch", "lease", "hamburg", "--type=merge", "-p", change
    )

    assert 'cannot patch resource "leases"' in result.errors


async def test_a_member_cannot_become_another_cluster(fleet: JoinedFleet) -> None:
    change = '{"metadata":{"annotations":{"hanse.dev/cluster-uid":"another"}}}'

    result = await fleet.as_member(
        "lubeck", "patch", "lease", "lubeck", "--type=merge", "-p", change
    )

    assert "metadata that others act on cannot be changed" in result.errors


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("get", "secrets"), id="read secrets"),
        pytest.param(("create", "configmap", "a"), id="keep configuration"),
        pytest.param(("create", "token", "hamburg"), id="speak for another"),
        pytest.param(("create", "token", "default"), id="speak for nobody"),
        pytest.param(("get", "endpointslices", "-A"), id="see other namespaces"),
        pytest.param(("delete", "lease", "lubeck"), id="delete a lease"),
        pytest.param(("delete", "namespace", BROKER_NAMESPACE), id="end the fleet"),
    ],
)
async def test_a_member_may_not(fleet: JoinedFleet, arguments: tuple[str, ...]) -> None:
    result = await fleet.as_member("lubeck", *arguments)

    assert result.status == 1
    assert "forbidden" in result.errors.lower()


async def test_a_cluster_id_belongs_to_one_cluster(fleet: JoinedFleet) -> None:
    result = await fleet.hanse(
        *("join", "--broker", "broker", "--cluster-id", "lubeck", "--context", "broker"),
        *("--broker-namespace", BROKER_NAMESPACE),
    )

    assert result.status == 2
    assert result.errors.startswith("hanse: cluster id 'lubeck' is that of another cluster")


async def test_a_member_renews_its_own_token_and_keeps_it_in_secret_and_file(
    fleet: JoinedFleet, tmp_path: Path
) -> None:
    file = tmp_path / "broker.kubeconfig"
    file.write_bytes(fleet.broker_kubeconfig("lubeck").read_bytes())
    broker, home = from_files((file,)), from_files((fleet.folder / "lubeck.kubeconfig",))
    old = (await broker.config()).identity.token
    transports = HttpTransport(broker), HttpTransport(home)
    secret = SecretTokenStore(Client(transports[1]), "hanse-system", "hanse-broker", "kubeconfig")
    clock = AheadClock(timedelta(days=4))
    renewal = TokenRenewer(
        ServiceAccountName(ACCOUNTS_NAMESPACE, "lubeck"),
        Client(transports[0]),
        broker,
        (secret, FileTokenStore(file)),
        clock,
    )

    await renewal.renew_if_due()

    new = await FileTokenStore(file).token()
    assert new != old
    assert await secret.token() == new
    result = await fleet.kubectl(file, "broker", "-n", BROKER_NAMESPACE, "get", "lease", "lubeck")
    assert result.status == 0, result.errors
    for transport in transports:
        await transport.close()


async def test_a_member_reads_only_its_own_secrets(fleet: JoinedFleet) -> None:
    for namespace in ("default", "hanse-system"):
        await fleet.on("lubeck", "-n", namespace, "create", "secret", "generic", "another")

    async def kubectl_errors(*arguments: str) -> str:
        own = fleet.folder / "lubeck.kubeconfig"
        return (await fleet.kubectl(own, "lubeck", *arguments)).errors.lower()

    at_home = ("-n", "hanse-system", "get", "secrets")
    for refused in (
        ("-n", "default", "get", "secret", "another"),
        ("get", "secrets", "-A"),
        at_home,
        (*at_home, "another"),
        (*at_home, "--field-selector", "metadata.name=another"),
    ):
        assert "forbidden" in await kubectl_errors(*refused), refused
    by_name = (*at_home, "--field-selector", "metadata.name=hanse-webhooks")
    assert "forbidden" not in await kubectl_errors(*by_name)


async def test_a_member_publishes_only_addresses_and_namespaces_of_its_own(
    fleet: JoinedFleet,
) -> None:
    own = {"id": "lubeck", "ranges": ["10.77.0.0/16", "fd00::/8"], "namespaces": ["shop"]}
    bounds = {"spec": {"clusters": [own]}}
    change = ("--type=merge", "-p", msgspec.json.encode(bounds).decode())
    await fleet.on("broker", "patch", "clusterset", "default", *change)
    try:
        inside, outside = (
            endpoint_slice("bounded", "lubeck").replace(
                '"endpoints":[]', f'"endpoints":[{{"addresses":["{address}"]}}]'
            )
            for address in ("10.77.1.2", "10.78.1.2")
        )
        refused = await _error_once_rejected(fleet, outside)
        elsewhere = inside.replace('"shop"', '"bank"')
        foreign = await fleet.as_member("lubeck", "create", "-f", "-", stdin=elsewhere)
        taken = await fleet.as_member("lubeck", "create", "-f", "-", stdin=inside)
        another = outside.replace("lubeck", "hamburg").replace("bounded", "free")
        free = await fleet.as_member("hamburg", "create", "-f", "-", stdin=another)

        assert "does not let lubeck publish addresses outside of its ranges" in refused
        assert "does not let lubeck publish services of namespace bank" in foreign.errors
        assert (taken.status, free.status) == (0, 0), taken.errors + free.errors
    finally:
        undone = '{"spec":{"clusters":[]}}'
        await fleet.on("broker", "patch", "clusterset", "default", "--type=merge", "-p", undone)
        await fleet.on(
            "broker", "-n", BROKER_NAMESPACE, "delete", "endpointslice", "bounded", "free"
        )


async def _error_once_rejected(fleet: JoinedFleet, stdin: str) -> str:
    """The error of the admission policy, once it has the new ranges."""
    for _ in range(50):
        result = await fleet.as_member("lubeck", "create", "-f", "-", stdin=stdin)
        if result.status:
            return result.errors
        await fleet.on("broker", "-n", BROKER_NAMESPACE, "delete", "endpointslice", "bounded")
        await asyncio.sleep(0.1)
    return ""


REPLICAS = "federation.kubernetes.io/stateful-replica-list"


async def test_a_member_writes_its_own_services_and_lists_replicas_at_those_of_others(
    fleet: JoinedFleet,
) -> None:
    people = ("-n", "default")
    await fleet.on(
        "broker", *people, "create", "-f", "-", stdin=derived_service("theirs", "hamburg")
    )
    change = ("patch", "service", "theirs", "--type=merge", "-p")
    member = fleet.as_member

    made = await member(
        "lubeck", *people, "create", "-f", "-", stdin=derived_service("own", "lubeck")
    )
    listed = {"metadata": {"annotations": {REPLICAS: "store-lubeck-0"}}}
    noted = await member("lubeck", *people, *change, msgspec.json.encode(listed).decode())
    false = await member(
        "lubeck", *people, "create", "-f", "-", stdin=derived_service("false", "bergen")
    )
    turned = await member("lubeck", *people, *change, '{"spec":{"publishNotReadyAddresses":true}}')
    marked = await member("lubeck", *people, *change, '{"metadata":{"annotations":{"a":"b"}}}')
    deleted = await member("lubeck", *people, "delete", "service", "theirs")
    await fleet.on("broker", *people, "delete", "service", "own", "theirs")

    assert (made.status, noted.status) == (0, 0), made.errors + noted.errors
    for refused in (false, turned, marked, deleted):
        assert "the Service was not made for lubeck" in refused.errors


async def test_a_member_reports_its_own_part_only(fleet: JoinedFleet) -> None:
    def part(cluster: str) -> str:
        made: dict[str, Any] = {
            "apiVersion": "hanse.dev/v1alpha1",
            "kind": "StatefulSetPart",
            "metadata": {"name": f"of-{cluster}-0a"},
            "spec": {"namespace": "shop", "name": "store", "cluster": cluster},
        }
        return msgspec.json.encode(made).decode()

    own = await fleet.as_member("lubeck", "create", "-f", "-", stdin=part("lubeck"))
    false = await fleet.as_member("lubeck", "create", "-f", "-", stdin=part("hamburg"))
    await fleet.on("broker", "-n", BROKER_NAMESPACE, "delete", "statefulsetpart", "of-lubeck-0a")

    assert own.status == 0, own.errors
    assert "spec.cluster must be lubeck" in false.errors


async def test_a_member_takes_no_name_of_one_whose_id_ends_with_its_own(
    fleet: JoinedFleet,
) -> None:
    at_home = ("-n", BROKER_NAMESPACE)
    longer = {
        "apiVersion": "hanse.dev/v1alpha1",
        "kind": "ClusterMember",
        "metadata": {"name": "eu-lubeck", "namespace": BROKER_NAMESPACE},
        "spec": {"clusterID": "eu-lubeck", "uid": "eu"},
    }
    report = {
        "apiVersion": "hanse.dev/v1alpha1",
        "kind": "StatefulSetPart",
        "metadata": {"name": "store-eu-lubeck-0a"},
        "spec": {"namespace": "shop", "name": "store", "cluster": "lubeck"},
    }
    owner = {"hanse.dev/owner-key": owner_key("store-eu", "lubeck")}
    balancer = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "store-eu-lubeck-0",
            "annotations": {**owner, "statefulsets.hanse.dev/cluster": "lubeck"},
        },
        "spec": {
            "type": "LoadBalancer",
            "loadBalancerClass": "hanse.dev/elsewhere",
            "ports": [{"port": 80}],
        },
    }
    joined = msgspec.json.encode(longer).decode()
    made = await fleet.on("broker", "create", "-f", "-", stdin=joined)
    assert made.status == 0, made.errors
    try:
        for squat, where, word in (
            (report, BROKER_NAMESPACE, "report"),
            (balancer, "default", "replica"),
        ):
            taken = msgspec.json.encode(squat).decode()
            for _ in range(50):  # until the policies know the new member
                space = ("-n", where)
                result = await fleet.as_member("lubeck", *space, "create", "-f", "-", stdin=taken)
                if result.status:
                    break
                await fleet.on("broker", *space, "delete", "-f", "-", stdin=taken)
                await asyncio.sleep(0.1)
            assert f"the name is that of a {word} of eu-lubeck" in result.errors
    finally:
        await fleet.on("broker", *at_home, "delete", "clustermember", "eu-lubeck", "--wait=false")


@pytest.fixture(scope="module")
async def agents_running(fleet: JoinedFleet) -> None:
    """Wait until every agent has renewed its Lease."""
    for cluster in NAMES:
        renewed = f"--for=jsonpath={{.spec.holderIdentity}}={cluster}"
        result = await fleet.on(
            "broker", "-n", BROKER_NAMESPACE, "wait", renewed, UNTIL, f"lease/{cluster}"
        )
        assert result.status == 0, result.errors


POLICY_ATTEMPTS = 20
LB = "federation.kubernetes.io/statefulset-lb-needed"
UPDATE = "statefulsets.hanse.dev/update"
WISH = "federation.kubernetes.io/statefulset-preferences"


@pytest.mark.parametrize(
    ("name", "marks", "message"),
    [
        pytest.param("store", {LB: "yes"}, f"annotation {LB}: 'yes' is not 'true' or", id="lb"),
        pytest.param("store", {LB: "true"}, f"annotation {LB}: it needs spec.serviceName", id="no"),
        pytest.param("store", {UPDATE: "x" * 99}, f"{UPDATE}: '{'x' * 40}' is not", id="update"),
        pytest.param("store", {WISH: "lubeck"}, f"annotation {WISH}: it cannot be read", id="json"),
        pytest.param(
            "store",
            {WISH: '{"clusters": {"*": {}, "lubeck": {"minReplicas": 5, "maxReplicas": 2}}}'},
            f"annotation {WISH}: of lubeck it wants at least 5 and at most 2 replicas",
            id="min over max",
        ),
        pytest.param("s" * 45, {}, f"it becomes '{'s' * 45}-hamburg', 53 characters", id="name"),
    ],
)
async def test_a_stateful_set_that_no_cluster_can_run_is_rejected_by_admission(
    fleet: JoinedFleet, agents_running: None, name: str, marks: dict[str, str], message: str
) -> None:
    submitted = stateful_set(name, marks)
    for _ in range(POLICY_ATTEMPTS):  # an API server learns of new members and policies late
        refused = await fleet.on("broker", "create", "--dry-run=server", "-f", "-", stdin=submitted)
        if refused.status != 0:
            break
        await asyncio.sleep(1)

    assert refused.status != 0, "it was let in"
    assert message in refused.errors


async def test_a_submitted_stateful_set_shows_the_placement_of_its_replicas(
    fleet: JoinedFleet, agents_running: None
) -> None:
    for context in (*NAMES, "broker"):
        await fleet.on(context, "create", "namespace", "sets")
        await fleet.on(context, "label", "namespace", "sets", "hanse.dev/accept=true")
    wish = '{"clusters": {"*": {"weight": 3}, "lubeck": {"minReplicas": 1, "maxReplicas": 1}}}'
    submitted = stateful_set("store", {WISH: wish}).replace('"default"', '"sets"')
    made = await fleet.on("broker", "create", "-f", "-", stdin=submitted)
    assert made.status == 0, made.errors
    placed = ("-n", "sets", "get", "events", "--field-selector", "reason=Placed", "-o", "json")

    async with asyncio.timeout(60):
        while not (events := parse_json(await fleet.on("broker", *placed))["items"]):  # noqa: ASYNC110 - nothing waits for an Event by its reason
            await asyncio.sleep(0.2)
    for context in ("broker", *NAMES):
        await fleet.on(context, "delete", "namespace", "sets", "--wait=false")

    assert [e["message"] for e in events] == ["bergen 1, hamburg 1, lubeck 1"]


async def test_a_member_cannot_write_events_of_others(fleet: JoinedFleet) -> None:
    def event(reporter: str) -> str:
        made: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"by-{reporter}", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "any"},
            "reportingComponent": reporter,
            "reportingInstance": "lubeck",
        }
        return msgspec.json.encode(made).decode()

    people = ("-n", "default", "create", "-f", "-")
    own = await fleet.as_member("lubeck", *people, stdin=event("hanse"))
    false = await fleet.as_member("lubeck", *people, stdin=event("kubelet"))
    await fleet.on("broker", "delete", "event", "by-hanse")

    assert own.status == 0, own.errors
    assert "reportingComponent must be hanse" in false.errors


async def _imports(fleet: JoinedFleet, cluster: str, name: str) -> list[str]:
    """The clusters that an import names; none where there is no import."""
    get = ("-n", "shop", "get", "serviceimport", name, "--ignore-not-found", "-o")
    found = await fleet.on(cluster, *get, "jsonpath={.status.clusters[*].cluster}")
    return found.output.split()


async def _shared(fleet: JoinedFleet, exporter: str, name: str, importer: str) -> None:
    """Export a Service of one cluster, and wait until another imports it."""
    await fleet.on(exporter, "-n", "shop", "create", "service", "clusterip", name, "--tcp=80")
    export = {
        "apiVersion": "multicluster.x-k8s.io/v1beta1",
        "kind": "ServiceExport",
        "metadata": {"name": name, "namespace": "shop"},
    }
    made = msgspec.json.encode(export).decode()
    exported = await fleet.on(exporter, "create", "-f", "-", stdin=made)
    assert exported.status == 0, exported.errors
    async with asyncio.timeout(60):
        while await _imports(fleet, importer, name) != [exporter]:  # noqa: ASYNC110 - polls a server
            await asyncio.sleep(0.2)


@asynccontextmanager
async def _noting_imports(
    fleet: JoinedFleet, importer: str, name: str
) -> AsyncIterator[set[tuple[str, ...]]]:
    """The exporters that an import names while the block runs, each combination once."""
    seen: set[tuple[str, ...]] = set()

    async def watch() -> None:
        while True:
            seen.add(tuple(await _imports(fleet, importer, name)))
            await asyncio.sleep(0.2)

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch(), name="watch")
        yield seen
        watching.cancel()


async def test_a_token_is_replaced_without_a_gap_and_the_earlier_one_ends(
    fleet: JoinedFleet, exported: CommandResult, tmp_path: Path
) -> None:
    old = tmp_path / "old.kubeconfig"
    old.write_bytes(fleet.broker_kubeconfig("hamburg").read_bytes())
    lease = ("-n", BROKER_NAMESPACE, "get", "lease", "hamburg")
    known = await fleet.kubectl(old, "broker", *lease)

    async with _noting_imports(fleet, "lubeck", "web") as seen:
        rotated = await fleet.join("hamburg", "--rotate")
        async with asyncio.timeout(60):  # an API server remembers tokens for some seconds
            while (lost := await fleet.kubectl(old, "broker", *lease)).status == 0:  # noqa: ASYNC110 - polls a server
                await asyncio.sleep(0.5)
        await _shared(fleet, "hamburg", "by-the-new-token", "lubeck")

    assert known.status == 0, known.errors
    assert "hamburg uses a new token for broker; 1 earlier one is revoked" in rotated.output
    assert "Unauthorized" in lost.errors
    assert seen == {("hamburg", "lubeck")}


async def test_an_agent_of_version_0_1_0_takes_turns_with_this_one_and_nothing_vanishes(
    fleet: JoinedFleet, exported: CommandResult, tmp_path: Path
) -> None:
    earlier = earlier_source(tmp_path)

    async with _noting_imports(fleet, "hamburg", "web") as seen:
        await fleet.stop_agent("lubeck")
        await fleet.grant_rights_of("lubeck", earlier)
        async with fleet.agent("lubeck", earlier):
            await _shared(fleet, "lubeck", "by-the-earlier", "hamburg")
            await _shared(fleet, "hamburg", "by-the-later", "lubeck")
        await fleet.join("lubeck")
        async with fleet.agent("lubeck"):
            await _shared(fleet, "lubeck", "by-the-updated", "hamburg")
            kept = [
                await _imports(fleet, "hamburg", "by-the-earlier"),
                await _imports(fleet, "lubeck", "by-the-later"),
            ]

    assert seen == {("hamburg", "lubeck")}
    assert kept == [["lubeck"], ["hamburg"]]
