"""A broker and its members on real clusters: agents have the rights that joining gave, no more."""

import asyncio
from collections.abc import AsyncIterator
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
from tests.real.conftest import Kubectl, Said
from tests.real.members import HOME, SOURCE, Fleet, joined, json_in, service_for, set_of, slice_of

UNTIL = "--timeout=60s"

pytestmark = pytest.mark.anyio


class Later(Struct, frozen=True):
    """A clock that is ahead."""

    by: timedelta

    def now(self) -> datetime:
        return datetime.now(UTC) + self.by


@pytest.fixture(scope="module")
async def fleet(
    real_clusters: RealFleet, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Fleet]:
    async with joined(real_clusters, tmp_path_factory.mktemp("members"), kubectl) as whole:
        yield whole


@pytest.fixture(scope="module")
async def exported(fleet: Fleet) -> Said:
    """A Service that lubeck and hamburg export, as the command told it for lubeck."""
    for cluster in NAMES:
        await fleet.on(cluster, "create", "namespace", "shop")
    for cluster in ("hamburg", "lubeck"):
        await fleet.on(cluster, "-n", "shop", "create", "deployment", "web", "--image=web")
        await fleet.on(cluster, "-n", "shop", "expose", "deployment", "web", "--port=80")
        await fleet.on(cluster, "-n", "shop", "rollout", "status", "deployment/web", UNTIL)
        said = await fleet.hanse("export", "web", "-n", "shop", "--context", cluster)
        assert said.status == 0, said.output + said.errors
    return said


async def _slices_of(fleet: Fleet, cluster: str) -> list[str]:
    query = ("-n", HOME, "get", "endpointslices", "-l", f"{SOURCE}={cluster}", "-o", "json")
    return [one["metadata"]["name"] for one in json_in(await fleet.on("broker", *query))["items"]]


async def test_an_export_is_visible_in_every_cluster(fleet: Fleet, exported: Said) -> None:
    assert exported.output.startswith("shop/web is exported by hamburg, lubeck\n")

    for cluster in NAMES:
        second = "--for=jsonpath={.status.clusters[1].cluster}=lubeck"
        for sign in ("--for=create", second):  # waiting for a field fails where nothing is yet
            waited = await fleet.on(cluster, "-n", "shop", "wait", "serviceimport/web", sign, UNTIL)
            assert waited.status == 0, waited.errors


async def test_status_shows_the_service_once(fleet: Fleet, exported: Said) -> None:
    services = json_in(await fleet.hanse("status", "--json"))["services"]

    (web,) = [one for one in services if one["name"] == "web"]
    assert web["exporters"] == ["hamburg", "lubeck"]
    assert web["endpoints"]["lubeck"] == {"ready": 1, "all": 1}
    assert web["problems"] == []


async def test_joining_again_changes_nothing(fleet: Fleet) -> None:
    said = await fleet.join("lubeck")

    assert said.output.startswith("broker: nothing to change\nlubeck: nothing to change\n")


async def test_an_agent_never_asks_for_what_it_may_not_do(fleet: Fleet, exported: Said) -> None:
    logs = [(fleet.folder / f"{cluster}.log").read_text().lower() for cluster in NAMES]

    assert all("agent runs" in log for log in logs)
    refusals = ("forbidden", "denied", "may not read")
    assert not [log for log in logs if any(word in log for word in refusals)]


async def test_every_member_renews_its_own_lease(fleet: Fleet, exported: Said) -> None:
    for cluster in NAMES:
        renewed = f"--for=jsonpath={{.spec.holderIdentity}}={cluster}"
        waited = await fleet.on("broker", "-n", HOME, "wait", f"lease/{cluster}", renewed, UNTIL)
        assert waited.status == 0, waited.errors


async def test_a_member_writes_slices_in_its_own_name(fleet: Fleet) -> None:
    made = await fleet.as_member("lubeck", "create", "-f", "-", given=slice_of("own", "lubeck"))
    gone = await fleet.as_member("lubeck", "delete", "endpointslice", "own")

    assert (made.status, gone.status) == (0, 0), made.errors + gone.errors


async def test_a_member_cannot_write_a_slice_in_anothers_name(fleet: Fleet) -> None:
    said = await fleet.as_member("lubeck", "create", "-f", "-", given=slice_of("false", "hamburg"))

    assert said.status == 1
    assert f"label {SOURCE} must be lubeck" in said.errors


async def test_a_member_cannot_write_a_slice_in_nobodys_name(fleet: Fleet) -> None:
    bare = slice_of("bare", "lubeck").replace(SOURCE, "other")

    said = await fleet.as_member("lubeck", "create", "-f", "-", given=bare)

    assert f"label {SOURCE} must be lubeck" in said.errors


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
    fleet: Fleet, exported: Said, attempt: tuple[str, ...]
) -> None:
    (theirs,) = await _slices_of(fleet, "hamburg")
    verb, *rest = attempt

    said = await fleet.as_member("lubeck", verb, "endpointslice", theirs, *rest)

    assert f"label {SOURCE} must be lubeck" in said.errors
    assert await _slices_of(fleet, "hamburg") == [theirs]


async def test_a_member_cannot_give_its_own_slice_away(fleet: Fleet, exported: Said) -> None:
    (own,) = await _slices_of(fleet, "lubeck")
    gift = _THEFT.replace("lubeck", "hamburg")

    said = await fleet.as_member(
        "lubeck", "patch", "endpointslice", own, "--type=merge", "-p", gift
    )

    assert f"label {SOURCE} must be lubeck" in said.errors


async def test_a_member_cannot_renew_anothers_lease(fleet: Fleet) -> None:
    change = '{"spec":{"leaseDurationSeconds":3600}}'

    said = await fleet.as_member(
        "lubeck", "patch", "lease", "hamburg", "--type=merge", "-p", change
    )

    assert 'cannot patch resource "leases"' in said.errors


async def test_a_member_cannot_become_another_cluster(fleet: Fleet) -> None:
    change = '{"metadata":{"annotations":{"hanse.dev/cluster-uid":"another"}}}'

    said = await fleet.as_member("lubeck", "patch", "lease", "lubeck", "--type=merge", "-p", change)

    assert "annotation hanse.dev/cluster-uid says whose the id is" in said.errors


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(("get", "secrets"), id="read secrets"),
        pytest.param(("create", "configmap", "a"), id="keep configuration"),
        pytest.param(("create", "token", "hamburg"), id="speak for another"),
        pytest.param(("create", "token", "default"), id="speak for nobody"),
        pytest.param(("get", "endpointslices", "-A"), id="see other namespaces"),
        pytest.param(("delete", "lease", "lubeck"), id="delete a lease"),
        pytest.param(("delete", "namespace", HOME), id="end the fleet"),
    ],
)
async def test_a_member_may_not(fleet: Fleet, asked: tuple[str, ...]) -> None:
    said = await fleet.as_member("lubeck", *asked)

    assert said.status == 1
    assert "forbidden" in said.errors.lower()


async def test_an_id_is_one_clusters_alone(fleet: Fleet) -> None:
    said = await fleet.hanse(
        *("join", "--broker", "broker", "--cluster-id", "lubeck", "--context", "broker"),
        *("--broker-namespace", HOME),
    )

    assert said.status == 2
    assert said.errors.startswith("hanse: cluster id 'lubeck' is that of another cluster")


async def test_a_member_renews_its_own_token_and_keeps_it_in_secret_and_file(
    fleet: Fleet, tmp_path: Path
) -> None:
    file = tmp_path / "broker.kubeconfig"
    file.write_bytes(fleet.way("lubeck").read_bytes())
    broker, home = from_files((file,)), from_files((fleet.folder / "lubeck.kubeconfig",))
    old = (await broker.access()).identity.token
    ways = HttpTransport(broker), HttpTransport(home)
    secret = SecretTokenStore(Client(ways[1]), "hanse-system", "hanse-broker", "kubeconfig")
    clock = Later(timedelta(days=4))
    renewal = TokenRenewer(
        ServiceAccountName(HOME, "lubeck"),
        Client(ways[0]),
        broker,
        (secret, FileTokenStore(file)),
        clock,
    )

    await renewal.once()

    new = await FileTokenStore(file).token()
    assert new != old
    assert await secret.token() == new
    said = await fleet.kubectl(file, "broker", "-n", HOME, "get", "lease", "lubeck")
    assert said.status == 0, said.errors
    for way in ways:
        await way.close()


async def test_a_member_reads_its_own_secrets_alone(fleet: Fleet) -> None:
    for namespace in ("default", "hanse-system"):
        await fleet.on("lubeck", "-n", namespace, "create", "secret", "generic", "another")

    async def asked(*words: str) -> str:
        own = fleet.folder / "lubeck.kubeconfig"
        return (await fleet.kubectl(own, "lubeck", *words)).errors.lower()

    at_home = ("-n", "hanse-system", "get", "secrets")
    for refused in (
        ("-n", "default", "get", "secret", "another"),
        ("get", "secrets", "-A"),
        at_home,
        (*at_home, "another"),
        (*at_home, "--field-selector", "metadata.name=another"),
    ):
        assert "forbidden" in await asked(*refused), refused
    by_name = (*at_home, "--field-selector", "metadata.name=hanse-webhooks")
    assert "forbidden" not in await asked(*by_name)


async def test_a_member_publishes_only_addresses_of_its_ranges(fleet: Fleet) -> None:
    bounds = {"spec": {"clusters": [{"id": "lubeck", "ranges": ["10.77.0.0/16", "fd00::/8"]}]}}
    change = ("--type=merge", "-p", msgspec.json.encode(bounds).decode())
    await fleet.on("broker", "patch", "clusterset", "default", *change)
    try:
        inside, outside = (
            slice_of("bounded", "lubeck").replace(
                '"endpoints":[]', f'"endpoints":[{{"addresses":["{address}"]}}]'
            )
            for address in ("10.77.1.2", "10.78.1.2")
        )
        refused = await _until_refused(fleet, outside)
        taken = await fleet.as_member("lubeck", "create", "-f", "-", given=inside)
        another = outside.replace("lubeck", "hamburg").replace("bounded", "free")
        free = await fleet.as_member("hamburg", "create", "-f", "-", given=another)

        assert "does not let lubeck publish addresses outside of its ranges" in refused
        assert (taken.status, free.status) == (0, 0), taken.errors + free.errors
    finally:
        undone = '{"spec":{"clusters":[]}}'
        await fleet.on("broker", "patch", "clusterset", "default", "--type=merge", "-p", undone)
        await fleet.on("broker", "-n", HOME, "delete", "endpointslice", "bounded", "free")


async def _until_refused(fleet: Fleet, given: str) -> str:
    """What the policy says, once it has seen the new rules."""
    for _ in range(50):
        said = await fleet.as_member("lubeck", "create", "-f", "-", given=given)
        if said.status:
            return said.errors
        await fleet.on("broker", "-n", HOME, "delete", "endpointslice", "bounded")
        await asyncio.sleep(0.1)
    return ""


async def test_a_member_writes_services_of_its_own_replicas_and_annotates_those_of_others(
    fleet: Fleet,
) -> None:
    people = ("-n", "default")
    await fleet.on("broker", *people, "create", "-f", "-", given=service_for("theirs", "hamburg"))
    change = ("patch", "service", "theirs", "--type=merge", "-p")
    member = fleet.as_member

    made = await member("lubeck", *people, "create", "-f", "-", given=service_for("own", "lubeck"))
    noted = await member("lubeck", *people, *change, '{"metadata":{"annotations":{"a":"b"}}}')
    false = await member(
        "lubeck", *people, "create", "-f", "-", given=service_for("false", "bergen")
    )
    turned = await member("lubeck", *people, *change, '{"spec":{"selector":{"app":"mine"}}}')
    gone = await member("lubeck", *people, "delete", "service", "theirs")
    await fleet.on("broker", *people, "delete", "service", "own", "theirs")

    assert (made.status, noted.status) == (0, 0), made.errors + noted.errors
    for refused in (false, turned, gone):
        assert "the Service was not made for lubeck" in refused.errors


async def test_a_member_reports_its_own_part_only(fleet: Fleet) -> None:
    def part(cluster: str) -> str:
        made: dict[str, Any] = {
            "apiVersion": "hanse.dev/v1alpha1",
            "kind": "StatefulSetPart",
            "metadata": {"name": f"of-{cluster}"},
            "spec": {"namespace": "shop", "name": "store", "cluster": cluster},
        }
        return msgspec.json.encode(made).decode()

    own = await fleet.as_member("lubeck", "create", "-f", "-", given=part("lubeck"))
    false = await fleet.as_member("lubeck", "create", "-f", "-", given=part("hamburg"))
    await fleet.on("broker", "-n", HOME, "delete", "statefulsetpart", "of-lubeck")

    assert own.status == 0, own.errors
    assert "spec.cluster must be lubeck" in false.errors


@pytest.fixture(scope="module")
async def awake(fleet: Fleet) -> None:
    """Every agent has begun to work."""
    for cluster in NAMES:
        renewed = f"--for=jsonpath={{.spec.holderIdentity}}={cluster}"
        said = await fleet.on("broker", "-n", HOME, "wait", renewed, UNTIL, f"lease/{cluster}")
        assert said.status == 0, said.errors


LB = "federation.kubernetes.io/statefulset-lb-needed"
UPDATE = "statefulsets.hanse.dev/update"
WISH = "federation.kubernetes.io/statefulset-preferences"


@pytest.mark.parametrize(
    ("name", "marks", "words"),
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
async def test_a_set_that_no_cluster_could_run_is_refused_at_the_door(
    fleet: Fleet, awake: None, name: str, marks: dict[str, str], words: str
) -> None:
    refused = await fleet.on("broker", "create", "-f", "-", given=set_of(name, marks))

    assert refused.status != 0, "it was let in"
    assert words in refused.errors


async def test_a_set_at_the_door_tells_where_its_replicas_are_placed(
    fleet: Fleet, awake: None
) -> None:
    wish = '{"clusters": {"*": {"weight": 3}, "lubeck": {"minReplicas": 1, "maxReplicas": 1}}}'
    made = await fleet.on("broker", "create", "-f", "-", given=set_of("store", {WISH: wish}))
    assert made.status == 0, made.errors
    placed = ("get", "events", "--field-selector", "reason=Placed", "-o", "json")

    async with asyncio.timeout(60):
        while not (events := json_in(await fleet.on("broker", *placed))["items"]):  # noqa: ASYNC110 - nothing waits for an Event by its reason
            await asyncio.sleep(0.2)
    await fleet.on("broker", "delete", "statefulset", "store")

    assert [e["message"] for e in events] == ["bergen 1, hamburg 1, lubeck 1"]


async def test_a_member_tells_no_events_of_others(fleet: Fleet) -> None:
    def event(reporter: str) -> str:
        made: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"by-{reporter}", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "any"},
            "reportingComponent": reporter,
        }
        return msgspec.json.encode(made).decode()

    people = ("-n", "default", "create", "-f", "-")
    own = await fleet.as_member("lubeck", *people, given=event("hanse"))
    false = await fleet.as_member("lubeck", *people, given=event("kubelet"))
    await fleet.on("broker", "delete", "event", "by-hanse")

    assert own.status == 0, own.errors
    assert "reportingComponent must be hanse" in false.errors
