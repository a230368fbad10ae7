"""Find and delete everything of Hanse in a cluster, in an order in which nothing gets stuck."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct

from hanse.cli.apply import OUR_CATEGORY
from hanse.cli.errors import CommandFailed
from hanse.features.statefulsets.config_maps import TOPIC as CONFIG
from hanse.features.statefulsets.names import CLUSTER
from hanse.features.statefulsets.owned_objects import release_change
from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.kube.errors import ApiError, NotFound
from hanse.kube.requests import delete, patch, resource_path
from hanse.kube.transport import Request
from hanse.model.json_input import decode_json
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.kinds.networks import GROUP as ARKTOS
from hanse.model.manifests import PART_OF
from hanse.model.objects import Kind, Wire
from hanse.model.ownership import (
    APPLIED,
    EPOCH,
    OWNER,
    OWNER_KEY,
    SOURCES,
    OwnerClaim,
    parse_owner_claim,
)
from hanse.model.plan import Key, parse_key

ADMISSION = "admissionregistration.k8s.io"
FINALIZERS = (f"{ARKTOS}/", "hanse.dev/")
DELETION_TIMEOUT = timedelta(seconds=60)

_POLL_INTERVAL = timedelta(milliseconds=200)
_AGENTS = "workloads"
_SETS = "statefulsets"
"""The feature of sets over clusters, as owners name it."""
_QUIET_WAIT = timedelta(seconds=2)
"""How long to wait before the user is told what is waited for."""
_NOT_LISTED = frozenset({"events", "componentstatuses", "bindings"})
_RUNNING_ON = frozenset(k.kind.definition for k in (StatefulSet, Service, ConfigMap))
"""Kinds of what replicas of a set over clusters need, which run on without Hanse."""


class OwnedObject(Struct, frozen=True):
    """An object of Hanse in a cluster."""

    kind: Kind
    name: str
    namespace: str = ""
    finalizers: tuple[str, ...] = ()
    runs_on: Key | None = None
    """The key of the set over clusters whose replicas need it: it is released, not deleted."""

    def __str__(self) -> str:
        """`Kind namespace/name`, or `Kind name` without a namespace."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.name} {place}"


class Installation(Struct, frozen=True):
    """All objects of Hanse in a cluster, in the order of their deletion."""

    workloads: tuple[OwnedObject, ...] = ()
    """First: they could write the rest again."""
    admission: tuple[OwnedObject, ...] = ()
    """Then webhooks and policies, which could refuse the other deletions."""
    released: tuple[OwnedObject, ...] = ()
    """What replicas of sets over clusters need: they run on, without our labels."""
    owned: tuple[OwnedObject, ...] = ()
    held: tuple[OwnedObject, ...] = ()
    """Users' objects of our kinds that have our finalizers."""
    prepared: tuple[OwnedObject, ...] = ()
    definitions: tuple[OwnedObject, ...] = ()
    objects: dict[str, int] = {}
    """How many objects of users each definition takes with it."""

    def __bool__(self) -> bool:
        """Whether there is anything to delete or release, or a finalizer of ours to remove.

        How many objects users have of our kinds does not count.
        """
        return bool(self.held or self.released) or any(objects for _, objects in self.steps())

    def steps(self) -> Iterator[tuple[str, tuple[OwnedObject, ...]]]:
        """The objects to delete in the order of deletion, by step with its title, empty ones too.

        Objects `held` and `released` are not among them, as they are patched.
        """
        yield _AGENTS, self.workloads
        yield "admission", self.admission
        yield "what agents wrote", self.owned
        yield "accounts and rights", self.prepared
        yield "definitions of kinds", self.definitions


async def find_installation(client: Client, *, definitions: bool) -> Installation:
    """List all served kinds for what Hanse made in a cluster; nothing is deleted.

    It is known by the owner label with a valid owner annotation, the part-of label, and the
    category of CustomResourceDefinitions, which are left out without `definitions`. Kinds that may
    not be listed count as empty.
    """
    await refresh(client)
    served = client.rest_mapper.served
    assert served is not None, "discovery has just answered"
    kinds = _one_version_each(served.kinds)
    ours = await _our_definitions(client)
    labelled = await asyncio.gather(*(_list_labelled(client, kind, OWNER) for kind in kinds))
    owned = {one for found in labelled for one in found}
    prepared_lists = await asyncio.gather(
        *(_list_labelled(client, k, f"{PART_OF}=hanse") for k in kinds)
    )
    prepared = {one for found in prepared_lists for one in found} - owned
    own_kinds = [k for k in kinds if k.definition in ours]
    made = await asyncio.gather(*(_listed(client, kind, "") for kind in own_kinds))
    admission = {one for one in owned | prepared if one.kind.group == ADMISSION}
    workloads = {one for one in prepared if one.kind.group == "apps"}
    return Installation(
        admission=_sort_objects(admission),
        workloads=_sort_objects(workloads),
        released=_sort_objects(one for one in owned if one.runs_on is not None),
        owned=_sort_objects(one for one in owned - admission if one.runs_on is None),
        held=_sort_objects(
            one
            for found in made
            for pair in found
            if _has_our_finalizer(one := _owned_object(*pair))
        ),
        prepared=_sort_objects(prepared - admission - workloads),
        definitions=tuple(
            OwnedObject(CustomResourceDefinition.kind, name) for name in sorted(ours) if definitions
        ),
        objects={k.definition: len(m) for k, m in zip(own_kinds, made, strict=True) if m},
    )


async def remove_installation(
    client: Client, found: Installation, echo: Callable[[str], None]
) -> None:
    """Remove our finalizers from users' objects, then delete each step and wait until it is gone.

    After the workloads are gone, what replicas of sets over clusters need loses our label and
    annotations, and stays. Raises `CommandFailed` if a step takes longer than `DELETION_TIMEOUT`,
    or an object is there again.
    """
    for one in found.held:
        await _patch(client, one, _without_our_finalizers(one))
    for title, several in found.steps():
        await asyncio.gather(*(_delete_object(client, one) for one in several))
        await _wait_until_gone(client, several, echo)
        if title == _AGENTS:
            for one in found.released:
                await _patch(client, one, _release_patch(one))


def kubectl_commands(found: Installation, context: str) -> Iterator[str]:
    """The kubectl commands, as text, that do the same as `remove_installation`, in its order.

    They patch finalizers away, delete each step, and release what is to run on. Runs nothing.
    """
    prefix = f"kubectl --context {context}"
    yield from (_patch_command(prefix, one, _without_our_finalizers(one)) for one in found.held)
    for title, several in found.steps():
        places: dict[tuple[str, Kind], list[str]] = {}
        for one in several:
            places.setdefault((one.namespace, one.kind), []).append(one.name)
        for (namespace, kind), names in places.items():
            place = f" -n {namespace}" if namespace else ""
            deletion = f"delete {_resource_name(kind)} {' '.join(names)}"
            yield f"{prefix}{place} {deletion} --ignore-not-found"
        if title == _AGENTS:
            yield from (_patch_command(prefix, one, _release_patch(one)) for one in found.released)


def _patch_command(prefix: str, one: OwnedObject, change: Wire) -> str:
    """The text of the kubectl command that merge-patches an object with `change`; runs nothing."""
    place = f" -n {one.namespace}" if one.namespace else ""
    text = msgspec.json.encode(change).decode()
    return f"{prefix}{place} patch {_resource_name(one.kind)} {one.name} --type merge -p '{text}'"


def _release_patch(one: OwnedObject) -> Wire:
    """The merge patch that removes our label and annotations from an object that runs on.

    It also adds the annotation with the set that released it. Only for objects with `runs_on`.
    """
    assert one.runs_on is not None, "only what runs on is released"
    return release_change((OWNER_KEY, SOURCES, APPLIED, EPOCH), one.runs_on)


def _has_our_finalizer(one: OwnedObject) -> bool:
    """Whether a finalizer begins with one of our prefixes."""
    return any(finalizer.startswith(FINALIZERS) for finalizer in one.finalizers)


def _without_our_finalizers(one: OwnedObject) -> Wire:
    """The merge patch that removes our finalizers from an object and keeps all others."""
    kept = [f for f in one.finalizers if not f.startswith(FINALIZERS)]
    return {"metadata": {"finalizers": kept or None}}


def _resource_name(kind: Kind) -> str:
    """The kind for kubectl: `<plural>.<group>`, or the plural in the core group."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _one_version_each(kinds: Iterable[Kind]) -> list[Kind]:
    """Each group and resource in the last of its versions, in the order of `Kind`.

    Left out are subresources, and resources such as Events that are not to be listed.
    """
    found: dict[tuple[str, str], Kind] = {}
    for kind in sorted(kinds):
        if kind.plural not in _NOT_LISTED and "/" not in kind.plural:
            found[kind.group, kind.plural] = kind
    return list(found.values())


async def _our_definitions(client: Client) -> set[str]:
    """The names of CustomResourceDefinitions that have our category."""
    listed = await _listed(client, CustomResourceDefinition.kind, "")
    return {
        wire["metadata"]["name"]
        for _, wire in listed
        if OUR_CATEGORY in (wire["spec"]["names"].get("categories") or ())
    }


async def _list_labelled(client: Client, kind: Kind, labels: str) -> list[OwnedObject]:
    """The objects of a kind in all namespaces that a label selector selects.

    With the selector `OWNER` only those whose owner annotation names themselves: copies are not
    ours.
    """
    listed = await _listed(client, kind, labels)
    return [
        _owned_object(kind, wire)
        for kind, wire in listed
        if labels != OWNER or _owner_claim(wire) is not None
    ]


def _owner_claim(wire: Wire) -> OwnerClaim | None:
    """The object's owner annotation, decoded, if it names this very object; else None.

    The annotation of a copied manifest names the original.
    """
    meta = wire["metadata"]
    claim = parse_owner_claim(meta.get("annotations", {}).get(OWNER_KEY, ""))
    key = (meta.get("namespace", ""), meta["name"])
    return claim if claim is not None and (claim.namespace, claim.name) == key else None


async def _listed(client: Client, kind: Kind, labels: str) -> list[tuple[Kind, Wire]]:
    """List objects of a kind in all namespaces, as pairs of the kind and the JSON value.

    Empty after 403, 404 or 405; other errors are raised. `labels` is a label selector, "" for all.
    """
    query = (("labelSelector", labels),) if labels else ()
    try:
        answer = await client.send(Request("GET", resource_path(kind), query))
    except ApiError as error:
        if isinstance(error, NotFound) or error.status.code in (403, 405):
            return []  # not listable, or not allowed
        raise
    listed: dict[str, Any] = decode_json(answer.body)
    return [(kind, wire) for wire in listed.get("items") or ()]


def _owned_object(kind: Kind, wire: Wire) -> OwnedObject:
    """The reference of a listed object, with its finalizers.

    `runs_on` is set if replicas of a set over clusters in this cluster need it.
    """
    meta = wire["metadata"]
    finalizers = tuple(meta.get("finalizers") or ())
    return OwnedObject(
        kind, meta["name"], meta.get("namespace", ""), finalizers, _key_of_replicas(kind, wire)
    )


def _key_of_replicas(kind: Kind, wire: Wire) -> Key | None:
    """The key of a set over clusters whose replicas in this cluster need an object; else None.

    Only for StatefulSets, Services and ConfigMaps that the feature statefulsets owns here; not for
    copies of Services of replicas in other clusters, nor for what is at a broker.
    """
    claim = _owner_claim(wire)
    is_copy = CLUSTER in wire["metadata"].get("annotations", {})
    if claim is None or claim.feature != _SETS or is_copy:
        return None
    key = parse_key(claim.key) if kind.definition in _RUNNING_ON else None
    return key if key is not None and key.topic in ("local", CONFIG) else None


def _sort_objects(several: Iterable[OwnedObject]) -> tuple[OwnedObject, ...]:
    """The objects sorted by kind, namespace and name."""
    return tuple(sorted(several, key=lambda one: (one.kind, one.namespace, one.name)))


async def _patch(client: Client, one: OwnedObject, change: Wire) -> None:
    """Send a merge patch; an object already gone is fine."""
    try:
        place = (one.kind, one.name, one.namespace)
        await client.send(patch(*place, change, field_manager="hanse"))
    except NotFound:
        return


async def _delete_object(client: Client, one: OwnedObject) -> None:
    """Delete an object, in the foreground for group `apps`; does not wait until it is gone.

    One that is gone already is fine.
    """
    try:
        # A Deployment that is gone before its pods are would leave an agent that writes on.
        policy = "Foreground" if one.kind.group == "apps" else "Background"
        await client.send(delete(one.kind, one.name, one.namespace, propagation=policy))
    except NotFound:
        return


async def _wait_until_gone(
    client: Client, several: tuple[OwnedObject, ...], echo: Callable[[str], None]
) -> None:
    """Poll until all are gone; raises `CommandFailed` after `DELETION_TIMEOUT` or if one reappears.

    After two seconds `echo` is called once with what is waited for.
    """
    left, announced = list(several), False
    clock = asyncio.get_running_loop().time
    began = clock()
    while left := [one for one in left if await _still_exists(client, one)]:
        waited = clock() - began
        if waited > DELETION_TIMEOUT.total_seconds():
            raise CommandFailed(
                f"{_first_and_count(left)} does not go; kubectl get -o yaml shows its finalizers"
            )
        if waited > _QUIET_WAIT.total_seconds() and not announced:
            echo(
                f"waiting for {_first_and_count(left)} to go, {DELETION_TIMEOUT.seconds} s at most"
            )
            announced = True
        await asyncio.sleep(_POLL_INTERVAL.total_seconds())


def _first_and_count(found: list[OwnedObject]) -> str:
    """The first object, and how many more there are; there must be one."""
    return f"{found[0]} (and {len(found) - 1} more)" if len(found) > 1 else str(found[0])


async def _still_exists(client: Client, one: OwnedObject) -> bool:
    """Whether a deleted object still exists, being deleted; False once it is gone.

    Raises `CommandFailed` if it is there without a deletionTimestamp: it was created again.
    """
    try:
        answer = await client.send(Request("GET", resource_path(one.kind, one.namespace, one.name)))
    except NotFound:
        return False
    meta = decode_json(answer.body)["metadata"]
    if not meta.get("deletionTimestamp"):
        raise CommandFailed(
            f"{one} was deleted and at once written again: an agent is at work; stop it, or in a "
            "federation `hanse leave` first, and run this once more"
        )
    return True
