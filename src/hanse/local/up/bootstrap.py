"""The initial objects of a local federation, and creating them; existing objects are kept."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import timedelta

import msgspec
from msgspec import Struct

from hanse.features.admission.configuration import NAME as WEBHOOKS
from hanse.features.federation import manifests
from hanse.features.services.broker_policies import CLUSTER_UID
from hanse.features.services.feature import BROKER_NAMESPACE
from hanse.features.services.manifests import FIRST_LEASE_SECONDS
from hanse.features.statefulsets.admission_policies import annotation_policy, name_policy
from hanse.kube.access import Endpoint
from hanse.kube.errors import error_of
from hanse.kube.request import MERGE_PATCH, Request, Response, Transport
from hanse.kube.requests import path_of
from hanse.local.up.topology import Member
from hanse.model.crds import crds, stand_ins
from hanse.model.kinds.federation import SYSTEM
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.manifests import SERVICE_ACCOUNT, Manifest
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Wire
from hanse.model.rights import Rule

SYSTEM_NAMESPACES = (SYSTEM_NAMESPACE, SYSTEM, NAMESPACE)

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FORMER_WEBHOOKS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}/{WEBHOOKS}"
    for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
)
SIGNS_OF_LIFE = f"/apis/coordination.k8s.io/v1/namespaces/{BROKER_NAMESPACE}/leases"
IDENTITY = "/api/v1/namespaces/kube-system"
"""The namespace whose uid tells clusters apart."""


class BootstrapObject(Struct, frozen=True):
    """An object and the collection it belongs to."""

    collection: str
    object: Wire

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.object['metadata']['name']}"


CLUSTER_SET = BootstrapObject(
    "/apis/hanse.dev/v1alpha1/clustersets",
    {"apiVersion": "hanse.dev/v1alpha1", "kind": "ClusterSet", "metadata": {"name": "local"}},
)
"""The rules of the fleet, with their defaults."""


def crd_objects() -> tuple[BootstrapObject, ...]:
    """Our kinds, and stand-ins for those of others."""
    return tuple(BootstrapObject(DEFINITIONS, definition) for definition in (*crds(), *stand_ins()))


def foundation(member: Member) -> tuple[BootstrapObject, ...]:
    """What every cluster has, and on the broker the rules of the fleet."""
    made = tuple(namespace_object(name) for name in SYSTEM_NAMESPACES)
    if member.runs_workloads:
        return made
    return (*made, namespace_object(BROKER_NAMESPACE), CLUSTER_SET, *_at_the_door())


def _at_the_door() -> tuple[BootstrapObject, ...]:
    """What the broker's API server refuses of StatefulSets, where it evaluates such policies."""
    policies = (*annotation_policy(BROKER_NAMESPACE), *name_policy(BROKER_NAMESPACE))
    return tuple(
        BootstrapObject(f"/apis/{m.kind.api_version}/{m.kind.plural}", m.wire) for m in policies
    )


def place_of(member: Member, uid: str) -> BootstrapObject:
    """A member's Lease on the broker as joining makes it: its id is that cluster's only."""
    marks = {"name": member.name, "namespace": BROKER_NAMESPACE, "annotations": {CLUSTER_UID: uid}}
    made: Wire = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": marks,
        "spec": {"leaseDurationSeconds": FIRST_LEASE_SECONDS},
    }
    return BootstrapObject(SIGNS_OF_LIFE, made)


def namespace_object(name: str) -> BootstrapObject:
    made: Wire = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return BootstrapObject("/api/v1/namespaces", made)


def is_ready(obj: Wire) -> bool:
    """Whether an object of the sample does what it is there for."""
    status = obj.get("status") or {}
    match obj["kind"]:
        case "Deployment":
            return bool(status.get("availableReplicas", 0) >= obj["spec"].get("replicas", 1))
        case "ServiceExport":
            conditions = status.get("conditions") or ()
            return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        case _:
            return True


PATIENCE = timedelta(seconds=30)
_LOOK_AGAIN = timedelta(milliseconds=20)


async def install_crds(transport: Transport, wanted: Sequence[BootstrapObject]) -> None:
    """Define kinds, or bring them to our version, and wait until they are served."""
    await asyncio.gather(*(_defined(transport, one) for one in wanted))
    names = {one.object["metadata"]["name"] for one in wanted}
    while not names <= await _established(transport):  # noqa: ASYNC110 - a server tells nobody
        await asyncio.sleep(_LOOK_AGAIN.total_seconds())


async def install(transport: Transport, wanted: Iterable[BootstrapObject]) -> None:
    """Create objects in order; one that is there may have been changed by a person, and stays."""
    for one in wanted:
        await create_if_absent(transport, one)


async def create_if_absent(transport: Transport, wanted: BootstrapObject) -> bool:
    """Create an object unless it is there; whether it is new."""
    answer = await _create(transport, wanted)
    if answer.status == 409:
        return False
    _successful(answer)
    return True


async def renew(transport: Transport, wanted: BootstrapObject) -> None:
    """Bring the data of an object that is there up to date: credentials are new at every start."""
    body = msgspec.json.encode({"data": wanted.object["data"]})
    request = Request("PATCH", wanted.path, body=body, content_type=MERGE_PATCH)
    answer = await transport.send(request)
    if answer.status != 404:
        _successful(answer)


async def mark(transport: Transport, wanted: BootstrapObject) -> None:
    """Create an object; of one that is there only the annotations are ours."""
    if await create_if_absent(transport, wanted):
        return
    marks = {"annotations": wanted.object["metadata"]["annotations"]}
    body = msgspec.json.encode({"metadata": marks})
    request = Request("PATCH", wanted.path, body=body, content_type=MERGE_PATCH)
    _successful(await transport.send(request))


async def uid_of(transport: Transport) -> str:
    """What tells a cluster from every other; a new server takes a moment until it has it."""
    while (answer := await transport.send(Request("GET", IDENTITY))).status == 404:  # noqa: ASYNC110 - the same
        await asyncio.sleep(_LOOK_AGAIN.total_seconds())
    return str(msgspec.json.decode(_successful(answer).body)["metadata"]["uid"])


async def follow_profile(transport: Transport, profile: str) -> None:
    """Let the fleet follow other rules, whatever it followed before."""
    body = msgspec.json.encode({"spec": {"profile": profile}})
    request = Request("PATCH", CLUSTER_SET.path, body=body, content_type=MERGE_PATCH)
    _successful(await transport.send(request))


async def await_ready(transport: Transport, wanted: BootstrapObject) -> bool:
    """Wait until an object does what it is there for, or for as long as that may take."""
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while not await _is_ready(transport, wanted):  # noqa: ASYNC110 - the same
                await asyncio.sleep(_LOOK_AGAIN.total_seconds())
    except TimeoutError:
        return False
    return True


async def await_signs_of_life(transport: Transport, clusters: AbstractSet[str]) -> None:
    """Wait until every cluster's agent has shown itself on the broker, for as long as it may."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while not clusters <= await _alive(transport):  # noqa: ASYNC110 - the same
                await asyncio.sleep(_LOOK_AGAIN.total_seconds())


async def _alive(transport: Transport) -> set[str]:
    answer = _successful(await transport.send(Request("GET", SIGNS_OF_LIFE)))
    leases = msgspec.json.decode(answer.body)["items"]
    return {one["metadata"]["name"] for one in leases if one["spec"].get("holderIdentity")}


async def _is_ready(transport: Transport, wanted: BootstrapObject) -> bool:
    answer = _successful(await transport.send(Request("GET", wanted.path)))
    return is_ready(msgspec.json.decode(answer.body))


async def _defined(transport: Transport, wanted: BootstrapObject) -> None:
    answer = await _create(transport, wanted)
    if answer.status == 409:
        body = msgspec.json.encode({"spec": wanted.object["spec"]})
        answer = await transport.send(
            Request("PATCH", wanted.path, body=body, content_type=MERGE_PATCH)
        )
    _successful(answer)


async def _create(transport: Transport, wanted: BootstrapObject) -> Response:
    body = msgspec.json.encode(wanted.object)
    return await transport.send(Request("POST", wanted.collection, body=body))


async def _established(transport: Transport) -> set[str]:
    answer = _successful(await transport.send(Request("GET", DEFINITIONS)))
    return {
        one["metadata"]["name"]
        for one in msgspec.json.decode(answer.body)["items"]
        if any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in one.get("status", {}).get("conditions") or ()
        )
    }


def _successful(answer: Response) -> Response:
    if not 200 <= answer.status < 300:
        raise error_of(answer)
    return answer


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
    if await create_if_absent(transport, _wanted(wanted)):
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
    if await create_if_absent(transport, _wanted(wanted)):
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


def _wanted(one: Manifest) -> BootstrapObject:
    return BootstrapObject(path_of(one.kind, one.namespace), one.wire)
