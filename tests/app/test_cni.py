"""The plugin that a guard installs, called by the CNI protocol, with a real delegate."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hanse.app import guard, guard_removal
from hanse.app.cni import UNCHECKED, NodePlugin
from hanse.app.cni_attachments import Attachments
from hanse.app.cni_folders import CniFolders, installed_folders
from hanse.features.networks.cni import CONFIG_FILE, CniError, KnownPod, PodRef, wrap_config
from hanse.features.networks.guard.transaction import REMOVAL, ElementChange
from hanse.features.networks.guard.vpcs import Attachment
from hanse.kube.client_config import ClientConfig, ServerEndpoint, StaticCredentials
from hanse.kube.errors import Unreachable
from hanse.kube.http_transport import HttpTransport
from hanse.model.kinds.core import Pod
from hanse.model.kinds.networks import Network, NetworkSpec
from hanse.model.objects import Meta
from hanse.providers.nftables import NftablesError
from tests.app.test_guard import EMPTY

pytestmark = pytest.mark.anyio

MAC = "02:00:00:00:00:05"
RESULT = {
    "cniVersion": "0.4.0",
    "interfaces": [
        {"name": "br0", "mac": "02:00:00:00:00:01"},
        {"name": "veth5", "mac": "02:00:00:00:00:02"},
        {"name": "eth0", "mac": MAC, "sandbox": "/var/run/netns/c1"},
    ],
    "ips": [{"version": "4", "address": "10.0.0.5/24", "interface": 2}],
}
DELEGATE = f"""#!/bin/sh
cat >"$0.$CNI_COMMAND.stdin"
echo "$CNI_ARGS" >"$0.$CNI_COMMAND.args"
[ "$CNI_COMMAND" != ADD ] || echo '{json.dumps(RESULT)}'
"""
BASE = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {"type": "bridge", "capabilities": {"ips": True}},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
OWN_WRAPPER = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "type": "hanse",
    "capabilities": {"ips": True},
    "delegate": {"type": "mizarcni"},
}
"""The configuration of a node that uses `hanse cni` without a guard."""
WEB = Pod(
    metadata=Meta(
        name="web",
        namespace="pods",
        uid="u1",
        annotations={"arktos.futurewei.com/cni-args": "IPV4=10.0.0.5"},
    )
)
FLAT = Network(metadata=Meta(name="acme.default"), spec=NetworkSpec(type="flat", tenant="acme"))
ARGS = "K8S_POD_NAMESPACE=pods;K8S_POD_NAME=web;K8S_POD_UID=u1"


KEPT = ["fallback", "folders", "questions"]
"""What is in the folder of the plugin without calls and attachments."""
LINK = "sys/class/net/veth5/brport"


class RecordedRules:
    """Rules that are kept as commands; `refusal` makes all of them fail.

    As in nftables, commands for ports need the table, which is there while `in_place`.
    """

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.refusal = ""
        self.in_place = False
        self.written = asyncio.Event()

    def run(self, commands: str) -> str:
        if self.refusal:
            raise NftablesError(self.refusal)
        self.commands.append(commands)
        if commands.startswith("table bridge"):
            self.in_place = "add table" in commands
            self.written.set()
        elif not self.in_place and "bridge" in commands:
            raise NftablesError("No such file or directory")
        return "vmap @ports" if commands.startswith("list") else ""

    def change(self, table: str, changes: Sequence[ElementChange]) -> None:
        raise AssertionError(f"{table} has no such elements: {changes}")


class Node:
    """A node with a network configuration, a delegate and links."""

    def __init__(self, folder: Path) -> None:
        self.rules = RecordedRules()
        self.pods: dict[str, Pod] = {"web": WEB}
        self.network: Network | None = FLAT
        self.reachable = True
        self.folder = folder
        for name in ("config", "plugins", "sys/class/net/br0/bridge", LINK):
            (folder / name).mkdir(parents=True)
        self.folders = CniFolders(folder / "config", folder / "plugins", folder / "run", folder)
        (self.folders.config / "10-pods.conflist").write_text(json.dumps(BASE))
        delegate = self.folders.plugins / "bridge"
        delegate.write_text(DELEGATE)
        delegate.chmod(0o755)

    async def read_pod(self, ref: PodRef) -> KnownPod | None:
        if not self.reachable:
            raise Unreachable("no answer")
        pod = self.pods.get(ref.name)
        return KnownPod(pod, self.network) if pod is not None else None

    @asynccontextmanager
    async def guarded(self) -> AsyncIterator[NodePlugin]:
        plugin = NodePlugin(self.folders, self.rules, self.read_pod)
        task = asyncio.create_task(plugin.run())
        await asyncio.sleep(0)  # it installs before it waits
        yield plugin
        task.cancel()
        await asyncio.wait([task])

    def installed(self) -> dict[str, Any]:
        config: dict[str, Any] = json.loads((self.folders.config / CONFIG_FILE).read_text())
        return config

    async def call(
        self, command: str, args: str = ARGS, config: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Call the plugin as a runtime does; gives its status and answer."""
        config = config or self.installed()
        request = {"cniVersion": "0.4.0", "name": config["name"], **config["plugins"][0]}
        process = await asyncio.create_subprocess_exec(
            self.folders.plugins / "hanse",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={
                "PATH": os.environ["PATH"],
                "CNI_COMMAND": command,
                "CNI_CONTAINERID": "c1",
                "CNI_NETNS": "/var/run/netns/c1",
                "CNI_IFNAME": "eth0",
                "CNI_PATH": f"/nowhere:{self.folders.plugins}",
                "CNI_ARGS": args,
            },
        )
        out, _ = await process.communicate(json.dumps(request).encode())
        return process.returncode or 0, json.loads(out or "{}")

    def delegated(self, command: str, what: str) -> str:
        return (self.folders.plugins / f"bridge.{command}.{what}").read_text().strip()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_the_first_plugin_of_the_node_becomes_the_delegate(node: Node) -> None:
    async with node.guarded() as plugin:
        assert plugin.problem == ""
        assert node.installed() == {
            **BASE,
            "plugins": [
                {
                    "type": "hanse",
                    "capabilities": {"ips": True},
                    "delegate": {"type": "bridge", "capabilities": {"ips": True}},
                },
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        }

        single = {"cniVersion": "1.0.0", "name": "other", "type": "ptp", "mtu": 1400}
        (node.folders.config / "05-other.conf").write_text(json.dumps(single))
        plugin.refresh()

        wrapped = {"type": "hanse", "delegate": single}
        assert node.installed() == {"cniVersion": "1.0.0", "name": "other", "plugins": [wrapped]}


async def test_a_pod_gets_its_arguments_and_its_port_rules(node: Node) -> None:
    async with node.guarded():
        status, answer = await node.call("ADD")

        assert (status, answer) == (0, RESULT)
        assert node.delegated("ADD", "args") == f"{ARGS};IPV4=10.0.0.5"
        request = json.loads(node.delegated("ADD", "stdin"))
        assert (request["type"], request["name"]) == ("bridge", "pods")
        added = node.rules.commands[-1]
        assert f"ether saddr != {MAC} counter drop" in added
        assert "ip saddr != { 10.0.0.5 } counter drop" in added
        assert '"veth5" : jump port-veth5' in added

        assert (await node.call("DEL"))[0] == 0
        assert "delete chain bridge hanse-guard port-veth5" in node.rules.commands[-1]
        assert sorted(path.name for path in node.folders.state.iterdir()) == KEPT


async def test_a_pod_of_a_vpc_does_not_start_without_the_arguments_of_its_vpc(node: Node) -> None:
    """As one that was made with its node, or before its namespace was a tenant's."""
    spec = NetworkSpec(type="vpc", tenant="acme", vpc_id="vpc-a")
    node.network = Network(metadata=Meta(name="acme.default"), spec=spec)
    async with node.guarded():
        status, answer = await node.call("ADD")
        assert (status, answer["code"]) == (1, 11)
        assert "has not prepared its port yet" in answer["msg"]
        assert not (node.folders.plugins / "bridge.ADD.args").exists()

        given = {"arktos.futurewei.com/cni-args": "IPV4=10.0.0.5;VPCID=vpc-a"}
        node.pods["web"] = replace(WEB, metadata=replace(WEB.metadata, annotations=given))
        assert (await node.call("ADD"))[0] == 0
        node.pods["web"] = WEB
        assert (await node.call("DEL"))[0] == 0


async def test_a_pod_in_no_network_cannot_take_an_address_or_vpc_by_its_annotation(
    node: Node,
) -> None:
    """In a namespace of no tenant anybody may annotate it."""
    node.network = None
    async with node.guarded():
        status, answer = await node.call("ADD")
        assert (status, answer["code"]) == (1, 11)
        assert "pod pods/web is in no network; remove its annotation" in answer["msg"]
        assert not (node.folders.plugins / "bridge.ADD.args").exists()
        assert (await node.call("DEL"))[0] == 0
        assert "IPV4" not in node.delegated("DEL", "args")

        node.pods["web"] = replace(WEB, metadata=replace(WEB.metadata, annotations={}))
        assert (await node.call("ADD"))[0] == 0


async def test_the_interfaces_of_pods_are_known_while_they_are_attached(node: Node) -> None:
    links = node.folders.system / "sys/class/net"
    (links / "veth5/master").symlink_to("../br0")
    told = []
    async with node.guarded() as plugin:
        plugin.on_attached = lambda: told.append([a.joined for a in plugin.attachments])
        await node.call("ADD")
        ref = PodRef("pods", "web", "u1")
        assert [*plugin.attachments] == [Attachment(ref, "veth5", ("br0",), ("10.0.0.5",))]
        assert plugin.attachments.is_attached("pods", "web")
        assert not plugin.attachments.refresh()

        (links / "veth5/master").unlink()
        assert plugin.attachments.refresh()
        assert [one.joined for one in plugin.attachments] == [()]
        again = Attachments(node.folders)
        again.load()
        assert [*again] == [*plugin.attachments]

        await node.call("DEL")
        assert [*plugin.attachments] == []
    assert told == [[("br0",)], []]


async def test_a_pod_does_not_start_without_its_rules_or_its_port(node: Node) -> None:
    async with node.guarded():
        node.rules.refusal = "no room"
        status, answer = await node.call("ADD")
        assert (status, answer["msg"]) == (1, "no room")
        assert node.delegated("DEL", "args")  # what was attached is taken down again

        node.rules.refusal = ""
        waiting = {"arktos.futurewei.com/network-readiness": "false"}
        node.pods["web"] = Pod(
            metadata=Meta(name="web", namespace="pods", uid="u1", annotations=waiting)
        )
        status, answer = await node.call("ADD")
        assert (status, answer["code"]) == (1, 11)
        assert "has not prepared its port yet" in answer["msg"]

        node.reachable = False
        assert "cannot be read" in (await node.call("ADD"))[1]["msg"]
        assert (await node.call("DEL"))[0] == 0


async def test_containers_end_while_no_guard_runs_and_none_start(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hanse.app.cni.ANSWER_SECONDS", 1)
    async with node.guarded():
        assert (await node.call("ADD"))[0] == 0

    status, answer = await node.call("ADD")
    assert (status, answer["code"]) == (1, 11)
    assert "the guard of this node does not answer" in answer["msg"]

    node.rules.commands.clear()
    stale = node.folders.state / "attached-zz-eth0"  # of an earlier interface of that name
    shutil.copytree(node.folders.state / "attached-c1-eth0", stale)
    (stale / "result").write_text(json.dumps(RESULT).replace("10.0.0.5", "10.0.0.9"))
    os.utime(stale, (0, 0))
    (node.folders.state / "call-killed").mkdir()
    os.utime(node.folders.state / "call-killed", (0, 0))
    async with node.guarded():
        assert '"veth5" : jump port-veth5' in node.rules.commands[0]
        assert "10.0.0.9" not in node.rules.commands[0]
        assert not (node.folders.state / "call-killed").exists()

    assert (await node.call("DEL"))[0] == 0
    assert node.delegated("DEL", "args") == f"{ARGS};IPV4=10.0.0.5"


async def test_nothing_is_installed_where_rules_cannot_be_or_others_come_first(node: Node) -> None:
    node.rules.refusal = "no bridge family"
    async with node.guarded() as plugin:
        assert plugin.problem == "the CNI plugin is not in use: no bridge family"
        assert not (node.folders.config / CONFIG_FILE).exists()

        node.rules.refusal = ""
        (node.folders.config / "00-aaa.conflist").write_text(json.dumps(BASE))
        plugin.refresh()
        assert "runtimes take 00-aaa.conflist first" in plugin.problem


@pytest.fixture
def removable(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node whose guards find its folder for the state."""
    monkeypatch.setattr("hanse.app.cni_folders.RELOAD_SECONDS", 0.0)
    monkeypatch.setattr(
        guard_removal,
        "installed_folders",
        lambda: installed_folders(node.folders.state, node.folder),
    )
    monkeypatch.setattr(guard_removal, "open_rules", lambda: node.rules)
    return node


def configs(node: Node) -> list[str]:
    return [path.name for path in node.folders.config.iterdir()]


async def test_removal_leaves_no_trace_when_the_pods_are_gone(removable: Node) -> None:
    """Its folders are not given; some runtimes end pods by the configuration of their start."""
    node = removable
    async with node.guarded():
        assert (await node.call("ADD"))[0] == 0
        started_with = node.installed()

    await guard_removal.remove_rules(None)

    assert configs(node) == ["10-pods.conflist"]
    assert "delete table bridge hanse-guard" in node.rules.commands[-1]
    assert (await node.call("ADD", config=started_with))[0] == 1
    assert (await node.call("DEL", config=started_with))[0] == 0
    assert node.delegated("DEL", "args") == f"{ARGS};IPV4=10.0.0.5"

    await guard_removal.remove_rules(None)

    assert not (node.folders.plugins / "hanse").exists()
    assert list(node.folders.state.iterdir()) == []


async def test_pods_whose_interface_is_gone_keep_nothing_of_the_plugin(removable: Node) -> None:
    node = removable
    async with node.guarded():
        assert (await node.call("ADD"))[0] == 0
    shutil.rmtree((node.folder / LINK).parent)

    await guard_removal.remove_rules(node.folders)

    assert not (node.folders.plugins / "hanse").exists()
    assert list(node.folders.state.iterdir()) == []


async def test_a_node_gets_its_configuration_back_though_nftables_refuses(removable: Node) -> None:
    node = removable
    async with node.guarded():
        pass
    node.rules.refusal = "not permitted"

    with pytest.raises(guard_removal.GuardUnavailable, match="not permitted"):
        await guard_removal.remove_rules(None)
    assert configs(node) == ["10-pods.conflist"]

    node.rules.refusal = ""
    await guard_removal.remove_rules(None)
    assert list(node.folders.state.iterdir()) == []


async def test_a_guard_that_is_no_plugin_any_more_removes_it(removable: Node) -> None:
    node = removable
    async with node.guarded():
        pass
    credentials = StaticCredentials(ClientConfig(ServerEndpoint("http://127.0.0.1:9")))
    nowhere = HttpTransport(credentials)

    async with guard.guarding(nowhere, guard.GuardSettings("node-1"), node.rules):
        assert configs(node) == ["10-pods.conflist"]
        assert not (node.folders.plugins / "hanse").exists()


async def test_a_guard_without_a_plugin_after_it_removes_it_and_keeps_the_rules(
    removable: Node,
) -> None:
    node = removable
    async with node.guarded():
        pass
    settings = guard.GuardSettings("node-1", cni=node.folders)
    ending = guard.Guard(settings, node.rules, lambda: EMPTY)

    await ending.remove_plugin()

    assert configs(node) == ["10-pods.conflist"]
    assert not (node.folders.plugins / "hanse").exists()
    assert REMOVAL not in node.rules.commands


async def test_another_folder_of_configurations_takes_the_place_of_the_first(node: Node) -> None:
    async with node.guarded():
        pass
    first = node.folders
    node.folders = replace(first, config=node.folder / "other")
    node.folders.config.mkdir()
    (node.folders.config / "10-pods.conflist").write_text(json.dumps(BASE))

    async with node.guarded() as plugin:
        assert plugin.problem == ""

    assert [path.name for path in first.config.iterdir()] == ["10-pods.conflist"]


async def test_rules_and_configuration_are_refreshed_by_a_timer(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hanse.app.cni.REFRESH_SECONDS", 0.0)
    async with node.guarded():
        node.rules.in_place = False
        node.rules.written.clear()
        (node.folders.config / "05-other.conf").write_text('{"type": "ptp", "name": "other"}')

        await node.rules.written.wait()
        assert node.installed()["name"] == "other"


async def test_pods_start_and_end_although_somebody_flushed_the_rules(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hanse.app.cni.REFRESH_SECONDS", 3600.0)  # calls alone write rules here
    async with node.guarded():
        node.rules.in_place = False
        assert (await node.call("ADD"))[0] == 0
        assert node.rules.commands[-1].startswith("table bridge hanse-guard")
        assert '"veth5" : jump port-veth5' in node.rules.commands[-1]

        node.rules.refusal = "busy"
        assert (await node.call("DEL"))[0] == 0

        node.rules.refusal = ""
        assert (await node.call("ADD"))[0] == 0  # by a table without the rules that stayed
        assert node.rules.commands[-1].startswith("table bridge hanse-guard")


async def test_containers_that_the_plugin_did_not_attach_end_while_no_guard_runs(
    node: Node,
) -> None:
    """Those of before its installation, and those whose start failed."""
    async with node.guarded():
        pass
    (node.folders.state / "questions").unlink()

    status, answer = await node.call("ADD")
    assert (status, answer["code"]) == (1, 11)
    assert (await node.call("DEL"))[0] == 0

    assert node.delegated("DEL", "args") == ARGS
    told = {"cniVersion": "0.4.0", "name": "pods", **BASE["plugins"][0]}  # type: ignore[dict-item]
    assert json.loads(node.delegated("DEL", "stdin")) == told
    assert not (node.folders.state / "questions").exists()


async def test_a_file_in_place_of_the_pipe_is_replaced(node: Node) -> None:
    node.folders.state.mkdir()
    (node.folders.state / "questions").write_text("call-1 begin\n")
    async with node.guarded():
        assert (await node.call("ADD"))[0] == 0


async def test_a_caller_that_does_not_read_its_answer_does_not_end_the_guard(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def refuse(pipe: int, text: bytes) -> int:
        if text == b"done\n":
            monkeypatch.setattr(os, "write", write)
            raise BrokenPipeError
        return write(pipe, text)

    monkeypatch.setattr("hanse.app.cni.ANSWER_SECONDS", 1)
    async with node.guarded():
        monkeypatch.setattr(os, "write", refuse)
        assert (await node.call("VERSION"))[0] == 1
        assert (await node.call("ADD"))[0] == 0


async def test_the_port_of_a_bridge_is_found_among_its_interfaces(node: Node) -> None:
    """As with a VLAN and a gateway, whose interface on the node is listed, too."""
    gateway = {"name": "br0.10", "mac": "02:00:00:00:00:03"}
    listed = {**RESULT, "interfaces": [gateway, *RESULT["interfaces"]]}
    (node.folder / "sys/class/net/br0.10").mkdir()
    delegate = node.folders.plugins / "bridge"
    delegate.write_text(DELEGATE.replace(json.dumps(RESULT), json.dumps(listed)))
    async with node.guarded():
        assert (await node.call("ADD"))[0] == 0
        assert '"veth5" : jump port-veth5' in node.rules.commands[-1]

        (node.folder / LINK).rmdir()
        status, answer = await node.call("ADD")
        assert status == 1
        assert "one port of it has to be listed, but none is" in answer["msg"]


async def test_a_plugin_that_changes_the_mac_later_is_refused(node: Node) -> None:
    tuning = {"type": "tuning", "mac": MAC}
    changed = {**BASE, "plugins": [*BASE["plugins"], tuning]}
    (node.folders.config / "10-pods.conflist").write_text(json.dumps(changed))
    async with node.guarded() as plugin:
        assert "10-pods.conflist: its plugin tuning sets mac" in plugin.problem
        assert configs(node) == ["10-pods.conflist"]


async def test_a_plugin_of_that_name_that_others_installed_stays(removable: Node) -> None:
    node = removable
    other = node.folders.plugins / "hanse"
    other.write_text("#!/bin/sh\nexec hanse cni\n")

    async with node.guarded() as plugin:
        assert f"{other} was not written by a guard; move it away" in plugin.problem
        assert configs(node) == ["10-pods.conflist"]
    await guard_removal.remove_rules(node.folders)
    assert other.read_text() == "#!/bin/sh\nexec hanse cni\n"

    other.unlink()
    async with node.guarded() as plugin:
        assert plugin.problem == ""


@pytest.mark.parametrize("foreign", [True, False])
async def test_a_configuration_that_uses_our_plugin_itself_is_refused_with_a_remedy(
    node: Node, foreign: bool
) -> None:
    config = node.folders.config / "10-pods.conflist"
    config.write_text(json.dumps(OWN_WRAPPER))
    if foreign:
        (node.folders.plugins / "hanse").write_text("#!/bin/sh\nexec hanse cni\n")

    async with node.guarded() as plugin:
        assert f"{config} names the plugin hanse itself: write its delegate" in plugin.problem
        assert configs(node) == ["10-pods.conflist"]
        assert (node.folders.plugins / "hanse").exists() == foreign

        config.write_text(json.dumps(BASE))
        (node.folders.plugins / "hanse").unlink(missing_ok=True)
        plugin.refresh()
        assert plugin.problem == ""


def test_our_plugin_is_never_its_own_delegate() -> None:
    delegate = {"capabilities": {"ips": True}, "type": "mizarcni"}
    wrapped = {"type": "hanse", "capabilities": {"ips": True}, "delegate": delegate}
    alone = {"cniVersion": "1.0.0", "name": "pods", "plugins": [wrapped]}

    assert wrap_config(json.dumps(OWN_WRAPPER).encode()) == alone
    assert wrap_config(json.dumps(alone).encode()) == alone
    assert wrap_config(json.dumps({**OWN_WRAPPER, "delegate": OWN_WRAPPER}).encode()) == alone
    with pytest.raises(CniError, match="its plugin hanse has no delegate"):
        wrap_config(json.dumps({**OWN_WRAPPER, "delegate": "mizarcni"}).encode())


async def test_ports_of_bridges_without_rules_are_told(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of pods: an uplink and a tunnel on the bridge are none."""
    links = node.folder / "sys/class/net"
    for name in ("eth0/brport", "eth0/device", "vxlan1/brport", "tap0/brport"):
        (links / name).mkdir(parents=True)
    (links / "vxlan1/uevent").write_text("DEVTYPE=vxlan\nINTERFACE=vxlan1\n")
    (links / "tap0/tun_flags").write_text("0x1002\n")

    async with node.guarded() as plugin:
        assert list(plugin.unchecked) == ["veth5"]
        assert [(one.message, vars(one)["ports"]) for one in caplog.records] == [
            (UNCHECKED, "veth5")
        ]
        assert (await node.call("ADD"))[0] == 0
        plugin.refresh()
        assert not plugin.unchecked
