"""The plugin that a guard installs, called by the CNI protocol, with a real delegate."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hanse.app.cni import CniFolders, NodePlugin, remove_plugin
from hanse.features.networks.cni import CONFIG_FILE, PodRef
from hanse.kube.errors import Unreachable
from hanse.model.kinds.core import Pod
from hanse.model.objects import Meta
from hanse.providers.nftables import NftablesError

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
WEB = Pod(
    metadata=Meta(
        name="web",
        namespace="pods",
        uid="u1",
        annotations={"arktos.futurewei.com/cni-args": "IPV4=10.0.0.5"},
    )
)
ARGS = "K8S_POD_NAMESPACE=pods;K8S_POD_NAME=web;K8S_POD_UID=u1"


class RecordedRules:
    """Rules that are kept as commands; `refusal` makes all of them fail."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.refusal = ""

    def run(self, commands: str) -> str:
        if self.refusal:
            raise NftablesError(self.refusal)
        self.commands.append(commands)
        return "vmap @ports" if commands.startswith("list") else ""


class Node:
    """A node with a network configuration, a delegate and links."""

    def __init__(self, folder: Path) -> None:
        self.rules = RecordedRules()
        self.pods: dict[str, Pod] = {"web": WEB}
        self.reachable = True
        for name in ("config", "plugins", "sys/class/net/br0/bridge", "sys/class/net/veth5"):
            (folder / name).mkdir(parents=True)
        self.folders = CniFolders(folder / "config", folder / "plugins", folder / "run", folder)
        (self.folders.config / "10-pods.conflist").write_text(json.dumps(BASE))
        delegate = self.folders.plugins / "bridge"
        delegate.write_text(DELEGATE)
        delegate.chmod(0o755)

    async def read_pod(self, ref: PodRef) -> Pod | None:
        if not self.reachable:
            raise Unreachable("no answer")
        return self.pods.get(ref.name)

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

    async def call(self, command: str, args: str = ARGS) -> tuple[int, dict[str, Any]]:
        """Call the plugin as a runtime does; gives its status and answer."""
        config = self.installed()
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
        assert [path.name for path in node.folders.state.iterdir()] == ["questions"]


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
    async with node.guarded():
        assert '"veth5" : jump port-veth5' in node.rules.commands[0]

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


async def test_removal_leaves_no_trace(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.app.cni.RELOAD_SECONDS", 0.0)
    async with node.guarded():
        assert (await node.call("ADD"))[0] == 0

    await remove_plugin(node.folders, node.rules)

    assert [path.name for path in node.folders.config.iterdir()] == ["10-pods.conflist"]
    assert not (node.folders.plugins / "hanse").exists()
    assert list(node.folders.state.iterdir()) == []
    assert "delete table bridge hanse-guard" in node.rules.commands[-1]
