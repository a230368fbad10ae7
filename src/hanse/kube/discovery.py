"""Finding out which kinds an API server serves, now and each time that a CRD appears or goes."""

import asyncio
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from hanse.kube.client import Client
from hanse.kube.decoding import unexpected_response
from hanse.kube.errors import ApiError
from hanse.kube.rest_mapper import ServedKinds
from hanse.kube.transport import JSON, Response
from hanse.model.objects import Kind

_AGGREGATED = ",".join(
    [
        f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        f"{JSON};g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        JSON,
    ]
)
T = TypeVar("T")


class DiscoveryChange(Struct, frozen=True):
    """How what is served differs from what was served before."""

    appeared: frozenset[Kind] = frozenset()
    gone: frozenset[Kind] = frozenset()


class ServerVersion(Struct, frozen=True, rename="camel"):
    """The release of an API server, as it says itself."""

    git_version: str = ""
    major: str = ""
    minor: str = ""

    @property
    def number(self) -> tuple[int, int]:
        """Comparable; some vendors write a minor version of `33+`."""
        return (_leading_number(self.major), _leading_number(self.minor))


class GroupVersion(Struct, frozen=True):
    """One version of one group; the core group has no name."""

    group: str
    version: str

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


class DiscoveredKinds(Struct, frozen=True):
    """What one answer tells: kinds, and versions whose kinds it does not know or tell."""

    kinds: frozenset[Kind] = frozenset()
    stale: frozenset[GroupVersion] = frozenset()
    untold: frozenset[GroupVersion] = frozenset()


async def refresh(client: Client) -> DiscoveryChange:
    """Ask what is served, teach it to the client, and say what is different from before.

    What an aggregated API serves while it is down is not known: it is taken to be as it was.
    """
    before = client.rest_mapper.served or ServedKinds()
    core, groups = await asyncio.gather(_ask(client, "/api"), _ask(client, "/apis"))
    kinds = set(core.kinds | groups.kinds)
    stale = core.stale | groups.stale
    untold = sorted(core.untold | groups.untold, key=lambda one: one.path)
    for answer in await asyncio.gather(*(_ask_version(client, one) for one in untold)):
        kinds |= answer.kinds
        stale |= answer.stale
    kinds |= {kind for kind in before.kinds if GroupVersion(kind.group, kind.version) in stale}
    now = ServedKinds(frozenset(kinds))
    client.rest_mapper.update(now)
    return DiscoveryChange(now.kinds - before.kinds, before.kinds - now.kinds)


async def server_version(client: Client) -> ServerVersion:
    """Which Kubernetes this is."""
    return _decoded(await client.read_raw("/version"), ServerVersion)


async def _ask(client: Client, path: str) -> DiscoveredKinds:
    response = await client.read_raw(path, accept=_AGGREGATED)
    return kinds_in(_decoded(response, _Document))


async def _ask_version(client: Client, wanted: GroupVersion) -> DiscoveredKinds:
    try:
        response = await client.read_raw(wanted.path)
    except ApiError:
        return DiscoveredKinds(stale=frozenset({wanted}))
    return DiscoveredKinds(kinds_in_version(_decoded(response, _Resources), wanted))


class _ResponseKind(Struct, frozen=True):
    kind: str = ""


class _AggregatedResource(Struct, frozen=True, rename="camel"):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str = "Namespaced"


class _AggregatedVersion(Struct, frozen=True):
    version: str
    resources: list[_AggregatedResource] | None = None
    freshness: str = "Current"


class _GroupName(Struct, frozen=True):
    name: str = ""


class _AggregatedGroup(Struct, frozen=True):
    metadata: _GroupName = _GroupName()
    versions: list[_AggregatedVersion] | None = None


class _Version(Struct, frozen=True):
    version: str


class _Group(Struct, frozen=True):
    name: str
    versions: list[_Version] | None = None


class _Document(Struct, frozen=True):
    """Any of APIGroupDiscoveryList (items), APIGroupList (groups) and APIVersions (versions)."""

    items: list[_AggregatedGroup] | None = None
    groups: list[_Group] | None = None
    versions: list[str] | None = None


class _Resource(Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool


class _Resources(Struct, frozen=True):
    """An APIResourceList."""

    resources: list[_Resource] | None = None


def kinds_in(document: _Document) -> DiscoveredKinds:
    """What the document at `/api` or `/apis` tells, in its new form or the old one."""
    kinds: set[Kind] = set()
    stale: set[GroupVersion] = set()
    for group in document.items or ():
        for version in group.versions or ():
            kinds.update(_aggregated_kinds(group.metadata.name, version))
            if version.freshness != "Current":
                stale.add(GroupVersion(group.metadata.name, version.version))
    untold = {GroupVersion("", version) for version in document.versions or ()}
    for named in document.groups or ():
        untold |= {GroupVersion(named.name, one.version) for one in named.versions or ()}
    return DiscoveredKinds(frozenset(kinds), frozenset(stale), frozenset(untold))


def kinds_in_version(document: _Resources, of: GroupVersion) -> frozenset[Kind]:
    """The kinds of one version in the old form, where subresources stand among them."""
    return frozenset(
        Kind(of.group, of.version, one.kind, one.name, one.namespaced)
        for one in document.resources or ()
        if "/" not in one.name
    )


def _aggregated_kinds(group: str, version: _AggregatedVersion) -> Iterator[Kind]:
    for one in version.resources or ():
        if one.response_kind is not None:
            namespaced = one.scope == "Namespaced"
            yield Kind(group, version.version, one.response_kind.kind, one.resource, namespaced)


def _decoded(response: Response, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(response.body, type=type_)
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None


def _leading_number(text: str) -> int:
    digits = "".join(char for char in text if char.isdecimal())
    return int(digits) if digits else 0
