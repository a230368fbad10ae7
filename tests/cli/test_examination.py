"""What commands ask API servers for in order to judge a fleet: each list once, and little else."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import cast

import msgspec
import pytest

from hanse import app
from hanse.cli.apply import apply, apply_definitions
from hanse.cli.clusters import ClusterAccess
from hanse.cli.doctor.examination import examine_clusters
from hanse.cli.permissions import Permission, agent_permissions, denied_to_agent
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint, StaticCredentials
from hanse.kube.clock import WallClock
from hanse.kube.lease import format_micro_time
from hanse.kube.transport import Request, Response
from hanse.local.in_process import InProcessTransport
from hanse.model.agent_manifests import agent_manifests
from hanse.model.findings import Ref
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec
from hanse.model.kinds.rbac import (
    BoundSubject,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    RoleBinding,
    RoleRef,
)
from hanse.model.manifests import crd_manifests
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.objects import Meta
from hanse.model.refused_writes import REFUSED_WRITES, RefusedWrites
from tinykube.apiserver import ApiServer
from tinykube.users import ADMIN, User

pytestmark = pytest.mark.anyio

SERVICES = app.Options(features=("services",))
MOST_REQUESTS = 17
"""A fleet has many clusters, and a person waits for them all."""
REFUSED = RefusedWrites(Ref("Webhook", "strict", "", "lubeck"), 1, "web", "no", datetime.now(UTC))


class Recorded(InProcessTransport):
    """A transport that keeps what it was asked for."""

    def __init__(self, server: ApiServer, user: User = ADMIN) -> None:
        super().__init__(server, user)
        self.server = server
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        return await super().send(request)


async def installed(options: app.Options) -> Recorded:
    """A cluster with all that an agent with these options needs."""
    transport = Recorded(ApiServer("lubeck", clock=WallClock()))
    client = Client(transport)
    await apply_definitions(client, crd_manifests(app.own_kinds(options)))
    await apply(client, agent_manifests(app.watches_by_feature(options), "lubeck"))
    transport.requests.clear()
    return transport


async def renew_lease(transport: Recorded, annotations: dict[str, str] | None = None) -> None:
    """Renew the Lease of the cluster's agent, which others see by that."""
    meta = LeaseMeta(name=AGENT, namespace=SYSTEM_NAMESPACE, annotations=annotations or {})
    spec = LeaseSpec(
        holder_identity="lubeck_1",
        lease_duration_seconds=30,
        renew_time=format_micro_time(WallClock().now()),
    )
    await Client(transport).create(Lease(metadata=meta, spec=spec))
    transport.requests.clear()


async def examined(monkeypatch: pytest.MonkeyPatch, transport: Recorded) -> Sequence[str]:
    """Examine a cluster; returns the codes of what is wrong."""
    config = ClientConfig(ServerEndpoint("https://lubeck"), Identity(token="x"))
    cluster = ClusterAccess("lubeck", StaticCredentials(config))

    @asynccontextmanager
    async def open_clients(_: object) -> AsyncIterator[dict[str, Client]]:
        yield {"lubeck": Client(transport)}

    monkeypatch.setattr("hanse.cli.doctor.examination.open_clients", open_clients)
    found = await examine_clusters([cluster], local=False)
    return [one.code for one in found.report.findings]


@pytest.mark.parametrize("options", [SERVICES, app.Options()], ids=["services", "all features"])
async def test_nothing_is_listed_twice(
    monkeypatch: pytest.MonkeyPatch, options: app.Options
) -> None:
    transport = await installed(options)

    assert "AgentMissing" in await examined(monkeypatch, transport)

    asked = Counter((r.method, r.target) for r in transport.requests if r.method == "GET")
    assert [target for target, times in asked.items() if times > 1] == []


@pytest.mark.parametrize("options", [SERVICES, app.Options()], ids=["services", "all features"])
async def test_a_member_needs_no_definitions_of_kinds_that_only_a_broker_has(
    monkeypatch: pytest.MonkeyPatch, options: app.Options
) -> None:
    transport = await installed(options)

    assert "CrdMissing" not in await examined(monkeypatch, transport)


async def test_a_member_that_only_shares_services_is_asked_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transport = await installed(SERVICES)
    await renew_lease(transport)

    await examined(monkeypatch, transport)

    assert len(transport.requests) <= MOST_REQUESTS


@pytest.mark.parametrize(
    ("options", "annotations", "alive"),
    [
        (SERVICES, {}, False),
        (app.Options(), {}, True),
        (SERVICES, {REFUSED_WRITES: msgspec.json.encode([REFUSED]).decode()}, True),
    ],
    ids=["its agent is gone", "its agent has webhooks", "something refuses writes"],
)
async def test_webhooks_are_listed_where_they_may_matter(
    monkeypatch: pytest.MonkeyPatch,
    options: app.Options,
    annotations: dict[str, str],
    alive: bool,
) -> None:
    transport = await installed(options)
    if alive:
        await renew_lease(transport, annotations)

    await examined(monkeypatch, transport)

    listed = {request.path.rpartition("/")[2] for request in transport.requests}
    assert {"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} <= listed


@pytest.mark.parametrize(("role", "times"), [("view", 0), ("cluster-admin", 1)])
async def test_only_who_may_renew_the_lease_of_a_silent_agent_tries_it(
    monkeypatch: pytest.MonkeyPatch, role: str, times: int
) -> None:
    transport = await installed(SERVICES)
    with monkeypatch.context() as patch:
        patch.setattr(WallClock, "now", lambda _: datetime.now(UTC) - timedelta(minutes=5))
        await renew_lease(transport)
    client, ann = Client(transport), User("ann", ("system:authenticated",))
    read = PolicyRule(api_groups=("*",), resources=("*",), verbs=("get", "list"))
    write = PolicyRule(api_groups=("*",), resources=("*",), verbs=("*",))
    rules = (read,) if role == "view" else (write,)
    await client.create(ClusterRole(metadata=Meta(name="anns"), rules=rules))
    await client.create(
        ClusterRoleBinding(
            metadata=Meta(name="anns"),
            role_ref=RoleRef(api_group=ClusterRole.kind.group, kind="ClusterRole", name="anns"),
            subjects=(BoundSubject(kind="User", name="ann"),),
        )
    )
    anns = Recorded(transport.server, ann)

    assert "AgentSilent" in await examined(monkeypatch, anns)

    assert [one.method for one in anns.requests].count("PATCH") == times


async def test_what_roles_allow_an_agent_needs_no_review() -> None:
    transport = await installed(SERVICES)
    client = Client(transport)

    assert await denied_to_agent(client, agent_permissions(("services",))) == ()

    assert {request.method for request in transport.requests} == {"GET"}


@pytest.mark.parametrize("lost", [ClusterRole, ClusterRoleBinding])
async def test_an_agent_whose_role_or_binding_is_gone_lacks_rights(
    lost: type[ClusterRole | ClusterRoleBinding],
) -> None:
    client = Client(await installed(SERVICES))
    await client.delete(lost, "hanse-agent-services", "")

    denied = await denied_to_agent(client, agent_permissions(("services",)))

    assert Permission("watch", "serviceexports", "multicluster.x-k8s.io") in denied


async def test_an_agent_that_may_not_renew_its_lease_lacks_rights() -> None:
    client = Client(await installed(SERVICES))
    await client.delete(RoleBinding, "hanse-agent", "hanse-system")

    (denied,) = await denied_to_agent(client, agent_permissions(("services",)))

    assert (denied.verb, denied.resource, denied.name) == ("patch", "leases", "hanse-agent")


async def test_a_right_that_others_grant_is_no_missing_right() -> None:
    client = Client(await installed(SERVICES))
    role = await client.read(ClusterRole, "hanse-agent-services")
    binding = await client.read(ClusterRoleBinding, "hanse-agent-services")
    for one in (role, binding):
        wire = {"metadata": {"labels": {"hanse.dev/feature": None}}}
        await client.patch(type(cast("ClusterRole", one)), one.name, "", wire)

    assert await denied_to_agent(client, agent_permissions(("services",))) == ()
