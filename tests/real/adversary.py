"""An attacker with somebody's token: it tries whatever the API server offers, and compares.

Nothing here reads our own declaration of rights: resources come from discovery, objects and fields
from what is there.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from hanse.kube.client_config import ClientConfig, Identity, StaticCredentials
from hanse.kube.http_transport import HttpTransport
from hanse.kube.transport import MERGE_PATCH, Request, Response, Transport
from hanse.local.real.cluster import RealCluster

Wire = dict[str, Any]
DRY = (("dryRun", "All"),)
INTRUDER = "intruder"
_OBJECTS_PER_NAMESPACE = 2
_REVIEWS = ("authorization.k8s.io", "authentication.k8s.io")
"""Groups whose resources are questions: nothing is stored."""


class Resource(Struct, frozen=True):
    """A resource, or a subresource of it, that discovery offers."""

    prefix: str
    name: str
    kind: str
    namespaced: bool
    subresource: str = ""

    @property
    def group(self) -> str:
        return self.prefix.split("/")[2] if self.prefix.startswith("/apis/") else ""

    def path(self, namespace: str, name: str = "") -> str:
        """The path of the collection, or of one object with the subresource."""
        middle = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        tail = f"/{name}" if name else ""
        tail += f"/{self.subresource}" if self.subresource and name else ""
        return f"{self.prefix}{middle}/{self.name}{tail}"


class Accepted(Struct, frozen=True):
    """A request of the attacker that the server accepted, and what it would have changed."""

    method: str
    path: str
    sent: str
    changed: tuple[str, ...]


def transport_with(cluster: RealCluster, token: str) -> Transport:
    """A transport to a cluster with a bearer token and nothing else."""
    endpoint = cluster.context.access.endpoint
    return HttpTransport(StaticCredentials(ClientConfig(endpoint, Identity(token=token))))


async def discover(admin: Transport) -> tuple[Resource, ...]:
    """Every resource and subresource that the server offers, apart from reviews."""
    groups = (await _get(admin, "/apis"))["groups"]
    prefixes = ["/api/v1"]
    for group in groups:
        prefixes += [f"/apis/{v['groupVersion']}" for v in group["versions"]]
    found: list[Resource] = []
    for prefix in prefixes:
        if any(group in prefix for group in _REVIEWS):
            continue
        for one in (await _get(admin, prefix))["resources"]:
            name, _, sub = one["name"].partition("/")
            found.append(Resource(prefix, name, one["kind"], one["namespaced"], sub))
    return tuple(found)


async def attack_everything(
    admin: Transport, attacker: Transport, is_own: Callable[[Wire], bool]
) -> list[Accepted]:
    """Try every verb on every resource, object and field of others; what was accepted.

    All requests are dry runs, which pass authorization and admission like any other.
    """
    targets = await _targets(admin, is_own)
    limit = asyncio.Semaphore(16)

    async def attempt(request: Request, sent: str, before: Wire | None) -> Accepted | None:
        async with limit:
            response = await attacker.send(request)
        if response.status >= 300:
            return None
        changed = _changes(before, response, request)
        return Accepted(request.method, request.path, sent, changed) if changed else None

    attempts = [
        attempt(request, sent, before)
        for resource, objects in targets
        for obj in objects
        for request, sent, before in _requests(resource, obj)
    ]
    assert len(attempts) > 1000, "there is something to attack"
    return [found for found in await asyncio.gather(*attempts) if found is not None]


class Offer(Struct, frozen=True):
    """A right to write that the server itself says a requester has in a namespace."""

    verb: str
    resource: str
    """GROUP/RESOURCE, with a subresource."""
    names: tuple[str, ...]


async def offered_writes(attacker: Transport, namespaces: Iterable[str]) -> set[Offer]:
    """What SelfSubjectRulesReviews offer in these namespaces, apart from reading and reviews."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    found: set[Offer] = set()
    for namespace in namespaces:
        body = {"kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
        answer = await attacker.send(Request("POST", path, body=msgspec.json.encode(body)))
        assert answer.status == 201, answer.body
        status = msgspec.json.decode(answer.body)["status"]
        assert not status["incomplete"]
        found |= {
            Offer(verb, f"{group}/{resource}", tuple(rule.get("resourceNames") or ()))
            for rule in status["resourceRules"]
            for verb in rule["verbs"]
            for group in rule.get("apiGroups") or ("",)
            for resource in rule.get("resources") or ()
            if verb not in ("get", "list", "watch") and group not in _REVIEWS
        }
    return found


async def attacked_resources(admin: Transport, is_own: Callable[[Wire], bool]) -> set[str]:
    """The resources, as of offers, of which `attack_everything` finds objects of others."""
    return {
        f"{resource.group}/{resource.name}{'/' if resource.subresource else ''}"
        f"{resource.subresource}"
        for resource, objects in await _targets(admin, is_own)
        if objects
    }


async def _targets(
    admin: Transport, is_own: Callable[[Wire], bool]
) -> list[tuple[Resource, list[Wire]]]:
    """Every resource and subresource, with objects of others."""
    resources = await discover(admin)
    parents = [r for r in resources if not r.subresource]
    listed = await asyncio.gather(*(_victims(admin, r, is_own) for r in parents))
    victims = {(r.prefix, r.name): objects for r, objects in zip(parents, listed, strict=True)}
    return [(r, victims[r.prefix, r.name]) for r in resources]


async def _victims(
    admin: Transport, resource: Resource, is_own: Callable[[Wire], bool]
) -> list[Wire]:
    """A few objects of others per namespace; none where the resource cannot be listed."""
    response = await admin.send(Request("GET", resource.path("")))
    if response.status >= 300:
        return []
    seen: dict[str, int] = {}
    chosen: list[Wire] = []
    for obj in msgspec.json.decode(response.body).get("items") or ():
        namespace = obj["metadata"].get("namespace", "")
        if not is_own(obj) and seen.get(namespace, 0) < _OBJECTS_PER_NAMESPACE:
            seen[namespace] = seen.get(namespace, 0) + 1
            chosen.append(obj)
    return chosen


def _requests(resource: Resource, obj: Wire) -> Iterator[tuple[Request, str, Wire | None]]:
    """Every way to write an object, with what is sent in a word and the object before."""
    metadata = obj["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    path, collection = resource.path(namespace, name), resource.path(namespace)
    group = resource.prefix.removeprefix("/apis/").removeprefix("/api/")
    typed = {"apiVersion": group, "kind": resource.kind, **obj}
    for sent, patch in _patches(obj):
        body = msgspec.json.encode(patch)
        yield Request("PATCH", path, DRY, body, MERGE_PATCH), sent, obj
    marked = {**typed, "metadata": {**metadata, "labels": {INTRUDER: "x"}}}
    yield Request("PUT", path, DRY, msgspec.json.encode(marked)), "labels", obj
    if resource.subresource:
        yield Request("POST", path, DRY, msgspec.json.encode({"kind": resource.kind})), "{}", None
        return
    kept = {k: v for k, v in metadata.items() if k in ("namespace", "labels", "annotations")}
    for new_name in (INTRUDER, f"hamburg.{INTRUDER}"):
        copy = {**typed, "metadata": {**kept, "name": new_name}}
        yield Request("POST", collection, DRY, msgspec.json.encode(copy)), "a copy", None
    yield Request("DELETE", path, DRY), "deletion", obj
    yield Request("DELETE", collection, DRY), "deletion of all", obj


def _patches(obj: Wire) -> Iterator[tuple[str, Wire]]:
    """A merge patch of each metadata that controllers act on, and of each field below the top."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "0-0"}
    for field, value in (
        ("labels", {INTRUDER: "x"}),
        ("annotations", {INTRUDER: "x"}),
        ("ownerReferences", [reference]),
        ("finalizers", [f"example.com/{INTRUDER}"]),
    ):
        yield field, {"metadata": {field: value}}
    for top, content in obj.items():
        if top in ("apiVersion", "kind", "metadata"):
            continue
        if not isinstance(content, dict):
            yield top, {top: _other(content)}
            continue
        for field, value in content.items():
            yield f"{top}.{field}", {top: {field: _other(value)}}
    yield "status", {"status": {"replicas": 7, "conditions": []}}


def _other(value: object) -> object:
    """Another value of the same type, as far as there is one."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}x"
        case list():
            return value[:-1]
        case dict():
            return {INTRUDER: "x"}
        case _:
            return INTRUDER


_UNIMPORTANT = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")


def _changes(before: Wire | None, response: Response, request: Request) -> tuple[str, ...]:
    """What an accepted request changes: the fields, or the verb where there is no object to see."""
    if request.method in ("DELETE", "POST") or before is None:
        return (request.method,)
    after = msgspec.json.decode(response.body)
    old, new = _flat(before), _flat(after)
    return tuple(sorted(f for f in old.keys() | new.keys() if old.get(f) != new.get(f)))


def _flat(obj: Wire) -> dict[str, object]:
    """The fields of an object by their names, metadata one by one."""
    metadata = {f"metadata.{k}": v for k, v in obj["metadata"].items() if k not in _UNIMPORTANT}
    rest = {k: v for k, v in obj.items() if k not in ("metadata", "apiVersion", "kind")}
    return {**metadata, **rest}


class Attack(Struct, frozen=True):
    """One request that must be refused, with a name that says what it would win."""

    name: str
    method: str
    path: str
    body: object = None
    content_type: str = "application/json"
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def request(self) -> Request:
        body = b"" if self.body is None else msgspec.json.encode(self.body)
        return Request(
            self.method, self.path, self.query, body, self.content_type, headers=self.headers
        )


async def unrefused(attacker: Transport, attacks: Iterable[Attack]) -> list[tuple[str, int, str]]:
    """The attacks that the server did not refuse for want of rights or by a policy.

    A request that is refused for another reason (it is invalid, or names nothing) proves nothing.
    """
    failed: list[tuple[str, int, str]] = []
    for attack in attacks:
        response = await attacker.send(attack.request)
        if response.status not in (401, 403):
            failed.append((attack.name, response.status, response.body.decode()[:300]))
    return failed


async def snapshot(admins: Mapping[str, Transport], paths: Iterable[str]) -> dict[str, list[bytes]]:
    """Every object under these paths in each cluster, byte for byte."""
    chosen = tuple(paths)
    found: dict[str, list[bytes]] = {}
    for cluster, admin in admins.items():
        for path in chosen:
            items = (await _get(admin, path)).get("items") or ()
            found[f"{cluster} {path}"] = [msgspec.json.encode(item) for item in items]
    return found


async def _get(transport: Transport, path: str) -> Any:
    response = await transport.send(Request("GET", path))
    assert response.status == 200, (path, response.status)
    return msgspec.json.decode(response.body)
