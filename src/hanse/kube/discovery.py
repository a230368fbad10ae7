"""Discovery of the kinds that an API server serves, in its aggregated and legacy forms."""

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
from hanse.model.json_input import decode_json
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
    """The kinds that appeared or disappeared since the previous discovery."""

    appeared: frozenset[Kind] = frozenset()
    gone: frozenset[Kind] = frozenset()


class GroupVersion(Struct, frozen=True):
    """One version of one group; the core group has no name."""

    group: str
    version: str

    @property
    def path(self) -> str:
        """`/apis/GROUP/VERSION`, or `/api/VERSION` for the core group."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


class DiscoveredKinds(Struct, frozen=True):
    """The kinds of one response, and group versions it marks as stale or does not list."""

    kinds: frozenset[Kind] = frozenset()
    stale: frozenset[GroupVersion] = frozenset()
    unlisted: frozenset[GroupVersion] = frozenset()


async def refresh(client: Client, *, core: bool = True) -> DiscoveryChange:
    """Discover the served kinds, replace those of the client's REST mapper, and return the change.

    Known kinds are kept of an aggregated API that is down (stale), and of a group version whose
    list is answered by an `ApiError`. Without `core` the kinds of the core group, which every
    server has, are neither asked for nor kept. The first time all kinds have appeared. Raises
    `KubeError`, and changes nothing then.
    """
    before = client.rest_mapper.served or ServedKinds()
    paths = ("/api", "/apis") if core else ("/apis",)
    found = await asyncio.gather(*(_read_group_list(client, path) for path in paths))
    kinds = {kind for one in found for kind in one.kinds}
    stale = {entry for one in found for entry in one.stale}
    unlisted = sorted((e for one in found for e in one.unlisted), key=lambda entry: entry.path)
    for result in await asyncio.gather(*(_discover_version(client, entry) for entry in unlisted)):
        kinds |= result.kinds
        stale |= result.stale
    kinds |= {kind for kind in before.kinds if GroupVersion(kind.group, kind.version) in stale}
    served = ServedKinds(frozenset(kinds))
    client.rest_mapper.update(served)
    return DiscoveryChange(served.kinds - before.kinds, before.kinds - served.kinds)


async def _read_group_list(client: Client, path: str) -> DiscoveredKinds:
    """Get `/api` or `/apis` and parse it; aggregated if the server can, else legacy.

    A legacy answer gives no kinds, only group versions in `unlisted`. Raises `KubeError`.
    """
    response = await client.read_raw(path, accept=_AGGREGATED)
    return parse_group_list(_decode_response(response, _DiscoveryDocument))


async def _discover_version(client: Client, group_version: GroupVersion) -> DiscoveredKinds:
    """Discover the kinds of one group version; an API error marks the version as stale instead.

    Raises `Unreachable` and `BadCredentials`.
    """
    try:
        response = await client.read_raw(group_version.path)
    except ApiError:
        return DiscoveredKinds(stale=frozenset({group_version}))
    return DiscoveredKinds(
        parse_resource_list(_decode_response(response, _Resources), group_version)
    )


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


class _GroupVersion(Struct, frozen=True):
    version: str


class _Group(Struct, frozen=True):
    name: str
    versions: list[_GroupVersion] | None = None


class _DiscoveryDocument(Struct, frozen=True):
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


def parse_group_list(document: _DiscoveryDocument) -> DiscoveredKinds:
    """The kinds of the document at `/api` or `/apis`, aggregated or legacy.

    A legacy document has no kinds, only versions that are to be listed one by one (`unlisted`). Of
    an aggregated one, the versions that are not `Current` are in `stale`; kinds that it lists for
    them are among the kinds all the same.
    """
    kinds: set[Kind] = set()
    stale: set[GroupVersion] = set()
    for group in document.items or ():
        for version in group.versions or ():
            kinds.update(_aggregated_kinds(group.metadata.name, version))
            if version.freshness != "Current":
                stale.add(GroupVersion(group.metadata.name, version.version))
    unlisted = {GroupVersion("", version) for version in document.versions or ()}
    for named in document.groups or ():
        unlisted |= {GroupVersion(named.name, entry.version) for entry in named.versions or ()}
    return DiscoveredKinds(frozenset(kinds), frozenset(stale), frozenset(unlisted))


def parse_resource_list(document: _Resources, group_version: GroupVersion) -> frozenset[Kind]:
    """The kinds of a legacy APIResourceList, without its subresources."""
    return frozenset(
        Kind(group_version.group, group_version.version, entry.kind, entry.name, entry.namespaced)
        for entry in document.resources or ()
        if "/" not in entry.name
    )


def _aggregated_kinds(group: str, version: _AggregatedVersion) -> Iterator[Kind]:
    """The kinds of a version, in the given group; resources without a response kind are skipped."""
    for entry in version.resources or ():
        if entry.response_kind is not None:
            namespaced = entry.scope == "Namespaced"
            yield Kind(group, version.version, entry.response_kind.kind, entry.resource, namespaced)


def _decode_response(response: Response, type_: type[T]) -> T:
    """The body of a response; raises `Unreachable` if it does not decode."""
    try:
        return decode_json(response.body, type=type_)
    except msgspec.DecodeError as error:
        raise unexpected_response(error) from None
