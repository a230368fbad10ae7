"""Tenant networks under an agent and webhooks of version 0.1.0, and back under this one.

Guards came with this version: 0.1.0 has none that could run beside them.
"""

import asyncio
import json
import os
import shlex
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hanse.local.real.binaries import cache_folder
from hanse.local.real.build import find_or_build
from hanse.local.real.programs import CLUSTER as PROGRAMS
from tests.cli.programs import running
from tests.real.earlier_version import earlier_source
from tests.real.skewed_fleet import Fleet, soon

CLUSTER = "lubeck"
QUIET_SECONDS = 10
KINDS = (
    "tenants,networks,networkpeerings,networkpolicies,namespaces,services,endpointslices,"
    "deployments,poddisruptionbudgets,serviceaccounts,roles,rolebindings,servicecidrs,"
    "validatingadmissionpolicies,validatingadmissionpolicybindings,"
    "validatingwebhookconfigurations,mutatingwebhookconfigurations"
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("skew")
    earlier = earlier_source(folder)
    asyncio.run(find_or_build(PROGRAMS, cache_folder()))
    cache = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")}
    arguments = ("--engine", "kubernetes", "--clusters", CLUSTER, "--no-sample")
    with running(folder, *arguments, env=cache) as federation:
        yield Fleet(federation, earlier, folder)


def test_tenants_stay_apart_and_keep_their_dns_under_both_versions(fleet: Fleet) -> None:
    for tenant in ("acme", "globex"):
        _new_tenant(fleet, tenant)
    _new_network(fleet, "acme.lab", "10.77.0.0/24")
    _new_network(fleet, "acme.brief", "10.78.0.0/24")
    _check_apart(fleet)
    before, kept = _dns_addresses(fleet), _uids(fleet)
    _check_quiet(fleet)

    with fleet.agent_of_0_1_0(CLUSTER, *_webhook_options()):
        _await_webhooks(fleet)
        _check_refused(fleet)
        _new_tenant(fleet, "initech")
        _new_network(fleet, "initech.brief", "10.79.0.0/24")
        fleet.on(CLUSTER, "delete", "network", "acme.brief", "--timeout=60s")
        _check_apart(fleet)
        assert _common(_dns_addresses(fleet), before) == _without(before, "acme.brief")
        _check_quiet(fleet)
        between = _dns_addresses(fleet)

    _await_webhooks(fleet)
    _check_refused(fleet)
    fleet.on(CLUSTER, "delete", "network", "initech.brief", "--timeout=60s")
    _new_tenant(fleet, "hooli")
    _check_apart(fleet)
    assert _common(_dns_addresses(fleet), between) == _without(between, "initech.brief")
    _check_quiet(fleet)
    lasting = {name: uid for name, uid in kept.items() if "brief" not in name}
    assert _common(_uids(fleet), lasting) == lasting, "something was deleted and made again"
    _remedy_old_policies(fleet)
    _new_service(fleet, "acme", "later", "lab")


def _remedy_old_policies(fleet: Fleet) -> None:
    """What 0.1.0 left is found, and mended by the command that is told with it."""
    (found,) = json.loads(fleet.hanse("doctor", "--json").out)["findings"]
    assert found["code"] == "AdmissionPolicyOld"
    (command,) = found["remedy"]["commands"]
    _, _, context, *arguments = shlex.split(command)
    fleet.on(context, *arguments)
    told = fleet.hanse("doctor")
    assert told.status == 0, told.out


def _new_service(fleet: Fleet, tenant: str, space: str, network: str) -> None:
    """A Service of a network in a further namespace of its tenant."""
    spaces = {"spec": {"namespaces": ["web", space]}}
    fleet.on(CLUSTER, "patch", "tenant", tenant, "--type=merge", "-p", json.dumps(spaces))
    name = f"{tenant}-{space}"
    fleet.on(CLUSTER, "wait", f"namespace/{name}", "--for=create", "--timeout=60s")
    labels = {"arktos.futurewei.com/network": network}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "trial", "namespace": name, "labels": labels},
        "spec": {"ports": [{"port": 80}]},
    }
    soon(lambda: fleet.try_on(CLUSTER, "apply", "-f", "-", stdin=json.dumps(service)).status, 0)


def _webhook_options() -> tuple[str, ...]:
    """Options of a webhook server on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    return ("--webhook-listen", address, "--webhook-url", f"https://{address}")


def _await_webhooks(fleet: Fleet) -> None:
    """Wait until the webhooks of the agent that runs answer."""
    probe = ("-n", "acme-web", "create", "configmap", "probe", "--dry-run=server")
    pod = ("-n", "acme-web", "run", "probe", "--image=probe", "--dry-run=server", "-o", "name")

    def labelled() -> str:
        return fleet.try_on(CLUSTER, *pod).out.strip()

    fleet.on(CLUSTER, *probe)
    soon(labelled, "pod/probe")


def _new_tenant(fleet: Fleet, name: str) -> None:
    """A tenant with a pod and a Service in its default network."""
    fleet.apply(
        CLUSTER,
        f"""
apiVersion: arktos.futurewei.com/v1
kind: Tenant
metadata: {{name: {name}}}
spec: {{namespaces: [web]}}
""",
    )
    fleet.wait(CLUSTER, f"network/{name}.default", "jsonpath={.status.phase}=Ready", "default")
    space = f"{name}-web"
    fleet.on(CLUSTER, "wait", f"namespace/{space}", "--for=create", "--timeout=60s")
    fleet.on(CLUSTER, "-n", space, "create", "deployment", "shop", "--image=shop")
    fleet.on(CLUSTER, "-n", space, "expose", "deployment", "shop", "--port=80")
    fleet.on(
        *(CLUSTER, "-n", space, "wait", "deployment/shop"),
        *("--for=condition=Available", "--timeout=60s"),
    )


def _new_network(fleet: Fleet, name: str, cidr: str) -> None:
    """A further network of a tenant, with a range of its own."""
    tenant = name.partition(".")[0]
    fleet.apply(
        CLUSTER,
        f"""
apiVersion: arktos.futurewei.com/v1
kind: Network
metadata: {{name: {name}}}
spec: {{type: flat, tenant: {tenant}, service: {{cidrs: [{cidr}]}}}}
""",
    )
    fleet.wait(CLUSTER, f"network/{name}", "jsonpath={.status.phase}=Ready", "default")


def _check_apart(fleet: Fleet) -> None:
    """By the policies that are written, no network reaches another, and each reaches itself."""
    shown = fleet.hanse("networks", "matrix", "--json", "--context", CLUSTER)
    matrix = json.loads(shown.out)
    assert matrix["leaks"] == []
    assert all(row[name] == "all" for name, row in matrix["written"].items()), matrix["written"]


def _check_refused(fleet: Fleet) -> None:
    """What a tenant may not do, webhooks of both versions refuse."""
    spy = ("run", "spy", "--image=spy", "--labels=arktos.futurewei.com/network=globex")
    for attempt in (
        ("-n", "acme-web", *spy),
        (
            "-n",
            "default",
            "create",
            "service",
            "clusterip",
            "x",
            "--tcp=80",
            "--clusterip=10.77.0.9",
        ),
    ):
        refused = fleet.try_on(CLUSTER, *attempt)
        assert refused.status != 0, f"{attempt}: {refused.out}"


def _dns_addresses(fleet: Fleet) -> dict[str, str]:
    """The addresses of DNS by network, which the Services have, too."""
    listed = json.loads(fleet.hanse("networks", "list", "--json", "--context", CLUSTER).out)
    found = {one["name"]: one["dns"] for one in listed}
    assert all(found.values()), found
    for name, address in found.items():
        tenant, network = name.split(".")
        get = ("-n", f"{tenant}-kube-system", "get", "service", f"kube-dns-{network}")
        assert fleet.on(CLUSTER, *get, "-o", "jsonpath={.spec.clusterIP}") == address
    return found


def _objects(fleet: Fleet, field: str) -> dict[str, str]:
    """A field of the metadata of all objects of networks."""
    listed = json.loads(fleet.on(CLUSTER, "get", KINDS, "-A", "-o", "json"))["items"]
    return {
        f"{one['kind']} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}": str(
            one["metadata"][field]
        )
        for one in listed
    }


def _uids(fleet: Fleet) -> dict[str, str]:
    """The uids of Services and networks of tenants, and of the policies that deny everything.

    Those that allow something within a network have other names in 0.1.0.
    """
    found = _objects(fleet, "uid")
    return {
        name: uid
        for name, uid in found.items()
        if name.startswith(("Service ", "Network ", "ServiceCIDR ")) or name.endswith("/hanse-deny")
    }


def _check_quiet(fleet: Fleet) -> None:
    """Wait until nothing changes for a moment; then nothing changes for longer."""
    until = time.monotonic() + 60
    versions = _objects(fleet, "resourceVersion")
    while time.monotonic() < until:
        time.sleep(3)
        before, versions = versions, _objects(fleet, "resourceVersion")
        if before == versions:
            break
    time.sleep(QUIET_SECONDS)
    after = _objects(fleet, "resourceVersion")
    assert after == versions, {k for k in after if after.get(k) != versions.get(k)}


def _common(found: dict[str, str], names: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in found.items() if name in names}


def _without(found: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in found.items() if key != name}
