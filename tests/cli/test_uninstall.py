"""`hanse uninstall` takes everything of ours, and nothing of anybody else's."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace

from hanse import app
from hanse.cli.apply import apply, apply_definitions
from hanse.cli.clusters import ClusterAccess
from hanse.cli.errors import CommandFailed
from hanse.cli.member_records import set_phase
from hanse.cli.root import hanse
from hanse.cli.uninstall import removal
from hanse.cli.uninstall.command import print_installation
from hanse.cli.uninstall.leaving import check_members
from hanse.cli.uninstall.removal import (
    Installation,
    OwnedObject,
    find_installation,
    kubectl_commands,
    remove_installation,
)
from hanse.features.federation import manifests as federation
from hanse.features.services.manifests import CLUSTER_ID, KUBECONFIG
from hanse.features.statefulsets.names import CLUSTER
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Credentials, Identity, ServerEndpoint
from hanse.kube.clock import WallClock
from hanse.kube.errors import NotFound
from hanse.local.in_process import InProcessTransport
from hanse.local.kubeconfig import Context, kubeconfig
from hanse.model.agent_manifests import agent_manifests
from hanse.model.kinds.admission import ValidatingAdmissionPolicy
from hanse.model.kinds.apps import Deployment, StatefulSet, StatefulSetSpec
from hanse.model.kinds.core import ConfigMap, Namespace, Secret, Service, ServicePort, ServiceSpec
from hanse.model.kinds.hanse import ClusterMember, ClusterMemberSpec, MemberPhase
from hanse.model.kinds.networking import LabelSelector
from hanse.model.kinds.networks import Network, NetworkSpec
from hanse.model.kinds.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from hanse.model.manifests import Manifest, crd_manifests
from hanse.model.naming import BROKER_SECRET, SYSTEM_NAMESPACE
from hanse.model.objects import Meta
from hanse.model.plan import Key
from hanse.runtime.ownership import Owner, with_owner
from tests.cli.programs import RunningFederation, running
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio

OWNER = Owner("toy", Key("offer", "bread", "shop"), "rome")


async def installed() -> Client:
    """A cluster with all of ours in it, beside what is somebody else's."""
    client = Client(InProcessTransport(ApiServer("rome", clock=WallClock())))
    await apply_definitions(client, crd_manifests())
    await apply(client, agent_manifests(app.watches_by_feature(), "rome"))
    await client.create(Namespace(metadata=Meta(name="shop")))
    ours = with_owner(ConfigMap(metadata=Meta(name="ours", namespace="shop")), OWNER)
    await client.create(ours)
    copied = Meta(
        name="copied",
        namespace="shop",
        labels=ours.metadata.labels,
        annotations=ours.metadata.annotations,
    )
    await client.create(ConfigMap(metadata=copied))
    held = Meta(name="acme.default", finalizers=("arktos.futurewei.com/network",))
    await client.create(Network(metadata=held, spec=NetworkSpec(type="flat", tenant="acme")))
    foreign = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "plural": "boats",
                "singular": "boat",
                "kind": "Boat",
                "listKind": "BoatList",
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    await apply_definitions(client, [Manifest(crd_manifests()[0].kind, foreign)])
    return client


async def test_everything_of_ours_goes_and_nothing_else() -> None:
    client = await installed()
    messages: list[str] = []

    await remove_installation(
        client, await find_installation(client, definitions=True), messages.append
    )

    assert not await find_installation(client, definitions=True)
    assert (await client.read(ConfigMap, "copied", "shop")).name == "copied"
    with pytest.raises(NotFound):
        await client.read(ConfigMap, "ours", "shop")
    boats = await client.read_raw("/apis/example.com/v1/boats")
    assert boats.status == 200


async def test_whoever_could_write_it_again_goes_first() -> None:
    found = Installation(
        workloads=(OwnedObject(Deployment.kind, "hanse-agent", "hanse-system"),),
        admission=(OwnedObject(ValidatingAdmissionPolicy.kind, "networks.hanse.dev-kept"),),
    )

    first, second, *_ = kubectl_commands(found, "rome")

    assert "delete deployments.apps hanse-agent" in first
    assert "delete validatingadmissionpolicies" in second


async def test_what_takes_its_time_to_go_is_named_while_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(removal, "_QUIET_WAIT", timedelta(0))
    client = await installed()
    slow = {"metadata": {"finalizers": ["example.com/slow"]}}
    await client.patch(ConfigMap, "ours", "shop", slow)
    messages: list[str] = []
    waiting = asyncio.Event()

    def echo(text: str) -> None:
        messages.append(text)
        waiting.set()

    async with asyncio.TaskGroup() as tasks:
        found = await find_installation(client, definitions=False)
        tasks.create_task(remove_installation(client, found, echo))
        await waiting.wait()
        await client.patch(ConfigMap, "ours", "shop", {"metadata": {"finalizers": None}})

    assert messages == ["waiting for ConfigMap shop/ours to go, 60 s at most"]


async def test_what_goes_with_a_kind_is_counted_before() -> None:
    client = await installed()

    found = await find_installation(client, definitions=True)

    assert found.objects == {"networks.arktos.futurewei.com": 1}
    assert [str(one) for one in found.held] == ["Network acme.default"]


async def test_crds_and_the_users_objects_can_be_kept() -> None:
    client = await installed()

    await remove_installation(client, await find_installation(client, definitions=False), print)

    assert (await client.read(Network, "acme.default")).metadata.finalizers == ()


async def test_the_same_can_be_done_by_hand() -> None:
    client = await installed()

    commands = list(kubectl_commands(await find_installation(client, definitions=True), "rome"))

    assert "kubectl --context rome -n shop delete configmaps ours --ignore-not-found" in commands
    assert commands[0].startswith("kubectl --context rome patch networks.arktos.futurewei.com")
    assert "customresourcedefinitions" in commands[-1]


async def test_replicas_of_a_set_over_clusters_run_on_without_an_owner() -> None:
    client = await installed()
    owner = Owner("statefulsets", Key("local", "store", "shop"), "rome")
    meta = Meta(name="store-rome", namespace="shop")
    labels = {"app": "store"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    spec = StatefulSetSpec(selector={"matchLabels": labels}, template=template, replicas=1)
    budget = PodDisruptionBudget(
        metadata=meta, spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels))
    )
    copy = Meta(name="store-riga-0", namespace="shop", annotations={CLUSTER: "riga"})
    port = ServiceSpec(ports=(ServicePort(port=80),))
    for obj in (
        StatefulSet(metadata=meta, spec=spec),
        Service(metadata=replace(meta, name="store-rome-0"), spec=port),
        Service(metadata=copy, spec=port),
        budget,
    ):
        await client.create(with_owner(obj, owner))
    found = await find_installation(client, definitions=False)
    by_hand = list(kubectl_commands(found, "rome"))

    await remove_installation(client, found, print)

    assert not await find_installation(client, definitions=False)
    for kind, name in ((StatefulSet, "store-rome"), (Service, "store-rome-0")):
        left = await client.read(kind, name, "shop")
        assert not any(mark.startswith("hanse.dev/") for mark in left.metadata.annotations)
        commands = [line for line in by_hand if f" {kind.kind.plural}" in line and name in line]
        assert [" patch " in line for line in commands] == [True], commands
    for gone, name in ((Service, "store-riga-0"), (PodDisruptionBudget, "store-rome")):
        with pytest.raises(NotFound):
            await client.read(gone, name, "shop")


async def test_by_hand_as_by_us_finalizers_of_others_stay() -> None:
    client = await installed()
    both = {"metadata": {"finalizers": ["example.com/slow", "arktos.futurewei.com/network"]}}
    await client.patch(Network, "acme.default", "", both)
    found = await find_installation(client, definitions=False)

    first, *_ = kubectl_commands(found, "rome")
    await remove_installation(client, found, print)

    assert first.endswith("""-p '{"metadata":{"finalizers":["example.com/slow"]}}'""")
    left = await client.read(Network, "acme.default")
    assert left.metadata.finalizers == ("example.com/slow",)


async def test_users_objects_that_only_we_hold_are_something_of_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = await installed()
    held = (await find_installation(client, definitions=False)).held
    found = Installation(held=held)

    assert found
    print_installation("rome", found)
    assert capsys.readouterr().out == "rome: our finalizers on objects: Network acme.default\n"

    await remove_installation(client, found, print)
    assert (await find_installation(client, definitions=False)).held == ()


@pytest.mark.parametrize("arguments", [(), ("--force",)], ids=["as usual", "by force"])
def test_only_what_is_going_to_leave_its_broker_is_said_to(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    transport = InProcessTransport(ApiServer("rome", clock=WallClock()))

    async def join() -> None:
        client = Client(transport)
        await client.create(Namespace(metadata=Meta(name=SYSTEM_NAMESPACE)))
        access = ClientConfig(ServerEndpoint("https://192.0.2.1"), Identity(token="secret"))
        text = yaml.safe_dump(kubeconfig([Context("broker", access)])).encode()
        meta = Meta(
            name=BROKER_SECRET,
            namespace=SYSTEM_NAMESPACE,
            labels={"app.kubernetes.io/part-of": "hanse"},
            annotations={CLUSTER_ID: "rome"},
        )
        await client.create(Secret(metadata=meta, data={KUBECONFIG: text}))

    asyncio.run(join())
    cluster = ClusterAccess("rome", cast("Credentials", None))
    monkeypatch.setattr("hanse.cli.clusters.select_cluster", lambda _: cluster)
    monkeypatch.setattr("hanse.cli.clusters._transport", lambda _: transport)
    told = CliRunner().invoke(hanse, ["uninstall", *arguments]).stdout

    assert "Nothing was deleted" in told
    assert ("leaves its broker first" in told) is (not arguments)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFederation]:
    with running(tmp_path_factory.mktemp("fleet"), "--clusters", "rome") as found:
        yield found


def test_an_agent_that_is_alive_elsewhere_is_named_and_nothing_is_deleted(
    fleet: RunningFederation,
) -> None:
    shop = ("-n", "shop", "wait", "serviceimport/web", "--for=create", "--timeout=60s")
    assert fleet.kubectl(*shop).status == 0

    looked = fleet.run_hanse("uninstall", "--context", "rome")
    refused = fleet.run_hanse("uninstall", "--context", "rome", "--yes")

    assert "Nothing was deleted" in looked.out
    assert "with them go 1 serviceexports.multicluster.x-k8s.io" in looked.out
    assert refused.status == 1
    assert "the agent rome_local is alive and runs elsewhere" in refused.err
    assert fleet.kubectl("get", "serviceimport", "web", "-n", "shop").status == 0


def test_an_agent_that_recreates_what_is_deleted_is_reported_and_not_waited_for(
    fleet: RunningFederation,
) -> None:
    agent = ("-n", "hanse-system", "create", "deployment", "hanse-agent", "--image=hanse")
    mark = ("-n", "hanse-system", "label", "deployment", "hanse-agent")
    assert fleet.kubectl(*agent).status == 0
    assert fleet.kubectl(*mark, "app.kubernetes.io/part-of=hanse").status == 0

    result = fleet.run_hanse("uninstall", "--context", "rome", "--yes", "--force")

    left = fleet.kubectl("-n", "hanse-system", "get", "deployments,replicasets,pods", "-o", "name")
    assert left.out == "", "an agent of the cluster's own is gone with its pods before the rest"
    assert result.status == 1
    assert "an agent is at work" in result.err or "is an agent still running?" in result.err


def test_a_context_that_is_not_there_is_named(fleet: RunningFederation, tmp_path: Path) -> None:
    result = fleet.run_hanse("uninstall", "--context", "nowhere")

    assert result.status == 2
    assert "nowhere" in result.err


_MEMBERS: dict[str, MemberPhase] = {"oslo": "Ready", "paris": "Left", "rome": "Joining"}


async def test_a_broker_whose_members_have_not_left_is_not_taken_from_them() -> None:
    client = await installed()
    await client.create(Namespace(metadata=Meta(name="league")))
    for name, phase in _MEMBERS.items():
        meta = Meta(name=name, namespace="league")
        uid = (await client.read(Namespace, "kube-system")).metadata.uid if name == "rome" else name
        spec = ClusterMemberSpec(cluster_id=name, uid=uid)
        record = await client.create(ClusterMember(metadata=meta, spec=spec))
        await set_phase(client, record, phase)

    with pytest.raises(CommandFailed, match="rome is the broker of oslo, which would lose") as told:
        await check_members(client, "rome")

    assert "hanse leave --broker rome --cluster-id oslo" in str(told.value)
    await client.delete(ClusterMember, "oslo", "league")
    await check_members(client, "rome")


async def test_a_cluster_without_members_is_no_broker() -> None:
    client = Client(InProcessTransport(ApiServer("rome", clock=WallClock())))

    await check_members(client, "rome")


@pytest.mark.parametrize(
    ("supervises", "members", "is_refused"),
    [
        pytest.param(True, ("rome", "oslo"), True, id="it leads another"),
        pytest.param(True, ("rome",), False, id="it leads itself alone"),
        pytest.param(False, (), True, id="another leads it"),
    ],
)
async def test_a_cluster_of_a_federation_is_not_taken_from_the_others(
    supervises: bool, members: tuple[str, ...], is_refused: bool
) -> None:
    client = await installed()
    entries = tuple(federation.member_entry(one, f"https://{one}") for one in members)
    made = federation.federation_with_members("league", "league", entries)
    await apply(
        client, [*federation.claim_manifests("rome", "league", supervisor=supervises), made]
    )
    leave = "hanse leave --federation league --cluster-id rome --context rome"

    if is_refused:
        with pytest.raises(CommandFailed, match=leave):
            await check_members(client, "rome")
    else:
        await check_members(client, "rome")
