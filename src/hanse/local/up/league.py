"""The Federation of a local federation: claims, accounts, and credentials for the supervisors."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

import msgspec

from hanse.features.federation import manifests
from hanse.kube.access import Endpoint
from hanse.kube.errors import error_of
from hanse.kube.request import MERGE_PATCH, Request, Transport
from hanse.kube.requests import path_of
from hanse.local.up.bootstrap import install, install_new
from hanse.local.up.sample import Wanted
from hanse.local.up.topology import Member
from hanse.model.kinds.federation import SYSTEM
from hanse.model.manifests import SERVICE_ACCOUNT, Manifest
from hanse.model.rights import Rule

NAME = "local"
"""What the Federation and its cluster set are called."""

TOKEN_LIFETIME = timedelta(days=30)
"""Each start makes new ones."""

Visit = Callable[[Callable[[Member, Transport], Awaitable[None]]], Awaitable[None]]
"""Does something in every cluster, all at once."""


async def form(
    members: Sequence[Member],
    endpoints: Mapping[str, Endpoint],
    rules_for: Callable[[str], tuple[Rule, ...]],
    in_each: Visit,
) -> None:
    """Make the federation that all clusters are in; what a person changed of it stays."""
    tokens: dict[str, str] = {}
    inside = [member for member in members if member.runs_workloads]

    async def claim(member: Member, transport: Transport) -> None:
        if not member.runs_workloads:
            return
        supervises = member.standing == "supervisor"
        said = manifests.claims(member.name, NAME, supervisor=supervises)
        account = manifests.account(rules_for(member.name))
        await install(transport, [_wanted(one) for one in (*said, *account)])
        tokens[member.name] = await _token(transport)

    async def introduce(member: Member, transport: Transport) -> None:
        if not member.runs_workloads:
            return
        servers = {}
        if member.standing == "supervisor":
            servers = {other.name: endpoints[other.name].url for other in inside}
            for other in inside:
                ca = endpoints[other.name].ca
                await _put(transport, manifests.member_secret(other.name, tokens[other.name], ca))
        await install_federation(transport, manifests.federation(NAME, NAME, servers))

    await in_each(claim)
    await in_each(introduce)


async def install_federation(transport: Transport, wanted: Manifest) -> None:
    """Create the Federation; where it stands, members keep their places at this run's URLs."""
    if await install_new(transport, _wanted(wanted)):
        return
    path = path_of(wanted.kind, "", wanted.name)
    answer = await transport.send(Request("GET", path))
    standing = msgspec.json.decode(answer.body).get("spec", {}).get("members") or []
    urls = {one["clusterID"]: one["server"] for one in wanted.wire["spec"].get("members", ())}
    moved = [{**one, "server": urls.get(one["clusterID"], one["server"])} for one in standing]
    if moved != standing:
        body = msgspec.json.encode({"spec": {"members": moved}})
        await transport.send(Request("PATCH", path, body=body, content_type=MERGE_PATCH))


async def _put(transport: Transport, wanted: Manifest) -> None:
    if await install_new(transport, _wanted(wanted)):
        return
    path = path_of(wanted.kind, wanted.namespace, wanted.name)
    body = msgspec.json.encode({"data": wanted.wire["data"]})
    await transport.send(Request("PATCH", path, body=body, content_type=MERGE_PATCH))


async def _token(transport: Transport) -> str:
    path = path_of(SERVICE_ACCOUNT, SYSTEM, manifests.ACCOUNT, "token")
    wanted = manifests.token_request(int(TOKEN_LIFETIME.total_seconds()))
    answer = await transport.send(Request("POST", path, body=msgspec.json.encode(wanted)))
    if answer.status != 201:
        raise error_of(answer)
    return str(msgspec.json.decode(answer.body)["status"]["token"])


def _wanted(one: Manifest) -> Wanted:
    return Wanted(path_of(one.kind, one.namespace), one.wire)
