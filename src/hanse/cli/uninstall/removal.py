"""Taking Hanse out of a cluster again: in an order in which nothing comes back or gets stuck."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct

from hanse.cli.apply import OUR_CATEGORY
from hanse.cli.errors import Trouble
from hanse.kube.client import Client
from hanse.kube.discovery import refresh
from hanse.kube.errors import ApiError, NotFound
from hanse.kube.requests import delete, merge_patch, resource_path
from hanse.kube.transport import Request
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.kinds.networks import GROUP as ARKTOS
from hanse.model.manifests import PART_OF
from hanse.model.objects import Kind, Wire
from hanse.model.ownership import OWNER, OWNER_KEY

ADMISSION = "admissionregistration.k8s.io"
FINALIZERS = (f"{ARKTOS}/", "hanse.dev/")
PATIENCE = timedelta(seconds=60)

_LOOK_AGAIN = timedelta(milliseconds=200)
_SILENCE = timedelta(seconds=2)
"""How long a wait needs no word."""
_UNLISTED = frozenset({"events", "componentstatuses", "bindings"})


class Found(Struct, frozen=True):
    """Something of ours in a cluster."""

    kind: Kind
    name: str
    namespace: str = ""
    finalizers: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.name} {place}"


class Remains(Struct, frozen=True):
    """All that there is of ours, in the order in which it goes."""

    workloads: tuple[Found, ...] = ()
    """First: whoever could bring the rest back."""
    admission: tuple[Found, ...] = ()
    """Then what could refuse the rest; it refuses nobody the going of workloads."""
    owned: tuple[Found, ...] = ()
    held: tuple[Found, ...] = ()
    """What people made of our kinds and waits for us to let go."""
    prepared: tuple[Found, ...] = ()
    definitions: tuple[Found, ...] = ()
    objects: dict[str, int] = {}
    """How many objects of people's go with each definition."""

    def __bool__(self) -> bool:
        return any((self.admission, self.workloads, self.owned, self.prepared, self.definitions))

    def steps(self) -> Iterator[tuple[str, tuple[Found, ...]]]:
        """What is deleted, step by step, with a word for each."""
        yield "workloads", self.workloads
        yield "admission", self.admission
        yield "what agents wrote", self.owned
        yield "accounts and rights", self.prepared
        yield "definitions of kinds", self.definitions


async def remains_in(client: Client, *, definitions: bool) -> Remains:
    """Look for everything of ours in a cluster."""
    await refresh(client)
    served = client.rest_mapper.served
    assert served is not None, "discovery has just answered"
    kinds = _once(served.kinds)
    ours = await _ours(client)
    labelled = await asyncio.gather(*(_labelled(client, kind, OWNER) for kind in kinds))
    owned = {one for found in labelled for one in found}
    parted = await asyncio.gather(*(_labelled(client, k, f"{PART_OF}=hanse") for k in kinds))
    prepared = {one for found in parted for one in found} - owned
    own_kinds = [k for k in kinds if k.definition in ours]
    made = await asyncio.gather(*(_listed(client, kind, "") for kind in own_kinds))
    admission = {one for one in owned | prepared if one.kind.group == ADMISSION}
    workloads = {one for one in prepared if one.kind.group == "apps"}
    return Remains(
        admission=_sorted(admission),
        workloads=_sorted(workloads),
        owned=_sorted(owned - admission),
        held=_sorted(one for found in made for pair in found if _waits(one := _found(*pair))),
        prepared=_sorted(prepared - admission - workloads),
        definitions=tuple(
            Found(CustomResourceDefinition.kind, name) for name in sorted(ours) if definitions
        ),
        objects={k.definition: len(m) for k, m in zip(own_kinds, made, strict=True) if m},
    )


async def remove(client: Client, found: Remains, tell: Callable[[str], None]) -> None:
    """Delete it all, step by step, telling what it waits for; raises `Trouble` for what stays."""
    for one in found.held:
        await _let_go(client, one)
    for _, several in found.steps():
        await asyncio.gather(*(_delete(client, one) for one in several))
        await _gone(client, several, tell)


def kubectl_for(found: Remains, context: str) -> Iterator[str]:
    """The same by hand, for a cluster whose agent is dead or for those who look first."""
    begin = f"kubectl --context {context}"
    for one in found.held:
        place = f" -n {one.namespace}" if one.namespace else ""
        change = '{"metadata":{"finalizers":null}}'
        yield f"{begin}{place} patch {_called(one.kind)} {one.name} --type merge -p '{change}'"
    for _, several in found.steps():
        places: dict[tuple[str, Kind], list[str]] = {}
        for one in several:
            places.setdefault((one.namespace, one.kind), []).append(one.name)
        for (namespace, kind), names in places.items():
            place = f" -n {namespace}" if namespace else ""
            yield f"{begin}{place} delete {_called(kind)} {' '.join(names)} --ignore-not-found"


def _waits(one: Found) -> bool:
    """Whether an object cannot go before we let it."""
    return any(finalizer.startswith(FINALIZERS) for finalizer in one.finalizers)


def _called(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _once(kinds: Iterable[Kind]) -> list[Kind]:
    """Each kind in one of its versions."""
    found: dict[tuple[str, str], Kind] = {}
    for kind in sorted(kinds):
        if kind.plural not in _UNLISTED and "/" not in kind.plural:
            found[kind.group, kind.plural] = kind
    return list(found.values())


async def _ours(client: Client) -> set[str]:
    """The names of definitions that are ours; others' are left."""
    listed = await _listed(client, CustomResourceDefinition.kind, "")
    return {
        wire["metadata"]["name"]
        for _, wire in listed
        if OUR_CATEGORY in (wire["spec"]["names"].get("categories") or ())
    }


async def _labelled(client: Client, kind: Kind, labels: str) -> list[Found]:
    listed = await _listed(client, kind, labels)
    return [_found(kind, wire) for kind, wire in listed if labels != OWNER or _is_owned(wire)]


def _is_owned(wire: Wire) -> bool:
    """Whether the mark was made for this very object: a copied one is somebody's own."""
    meta = wire["metadata"]
    try:
        claim = msgspec.json.decode(meta.get("annotations", {}).get(OWNER_KEY, "{}"))
    except msgspec.DecodeError:
        return False
    own = (meta.get("namespace", ""), meta["name"])
    return isinstance(claim, dict) and (claim.get("namespace", ""), claim.get("name")) == own


async def _listed(client: Client, kind: Kind, labels: str) -> list[tuple[Kind, Wire]]:
    query = (("labelSelector", labels),) if labels else ()
    try:
        answer = await client.send(Request("GET", resource_path(kind), query))
    except ApiError as error:
        if isinstance(error, NotFound) or error.status.code in (403, 405):
            return []  # not for listing, or not ours to see
        raise
    told: dict[str, Any] = msgspec.json.decode(answer.body)
    return [(kind, wire) for wire in told.get("items") or ()]


def _found(kind: Kind, wire: Wire) -> Found:
    meta = wire["metadata"]
    return Found(kind, meta["name"], meta.get("namespace", ""), tuple(meta.get("finalizers") or ()))


def _sorted(several: Iterable[Found]) -> tuple[Found, ...]:
    return tuple(sorted(several, key=lambda one: (one.kind, one.namespace, one.name)))


async def _let_go(client: Client, one: Found) -> None:
    kept = [f for f in one.finalizers if not f.startswith(FINALIZERS)]
    change: Wire = {"metadata": {"finalizers": kept or None}}
    try:
        place = (one.kind, one.name, one.namespace)
        await client.send(merge_patch(*place, change, field_manager="hanse"))
    except NotFound:
        return


async def _delete(client: Client, one: Found) -> None:
    try:
        # A Deployment that is gone before its pods are would leave an agent that writes on.
        policy = "Foreground" if one.kind.group == "apps" else "Background"
        await client.send(delete(one.kind, one.name, one.namespace, propagation=policy))
    except NotFound:
        return


async def _gone(client: Client, several: tuple[Found, ...], tell: Callable[[str], None]) -> None:
    """Wait until nothing of it is there any more; what somebody writes again ends the wait."""
    left, told = list(several), False
    clock = asyncio.get_running_loop().time
    began = clock()
    while left := [one for one in left if await _is_going(client, one)]:
        waited = clock() - began
        if waited > PATIENCE.total_seconds():
            raise Trouble(f"{_several(left)} does not go; kubectl get -o yaml shows its finalizers")
        if waited > _SILENCE.total_seconds() and not told:
            tell(f"waiting for {_several(left)} to go, {PATIENCE.seconds} s at most")
            told = True
        await asyncio.sleep(_LOOK_AGAIN.total_seconds())


def _several(found: list[Found]) -> str:
    return f"{found[0]} (and {len(found) - 1} more)" if len(found) > 1 else str(found[0])


async def _is_going(client: Client, one: Found) -> bool:
    """Whether something deleted is still there; raises `Trouble` where it was made anew."""
    try:
        answer = await client.send(Request("GET", resource_path(one.kind, one.namespace, one.name)))
    except NotFound:
        return False
    meta = msgspec.json.decode(answer.body)["metadata"]
    if not meta.get("deletionTimestamp"):
        raise Trouble(
            f"{one} was deleted and at once written again: an agent is at work; stop it, or in a "
            "federation `hanse leave` first, and run this once more"
        )
    return True
