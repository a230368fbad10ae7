"""Apply manifests to a cluster, and report what was created, changed or left."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import Any

import click
from msgspec import Struct

from hanse.cli.errors import CommandFailed
from hanse.kube.client import Client
from hanse.kube.errors import AlreadyExists, NotFound
from hanse.kube.requests import create, delete, patch, read, resource_path
from hanse.kube.transport import Request
from hanse.model.crds import is_of_newer_release
from hanse.model.json_input import decode_json
from hanse.model.kinds.apiextensions import CustomResourceDefinition
from hanse.model.manifests import Manifest
from hanse.model.objects import Wire
from hanse.runtime.compare import contains

SERVE_TIMEOUT = timedelta(seconds=30)
"""How long a server may take until it serves newly defined kinds."""

_POLL_INTERVAL = timedelta(milliseconds=50)
_MANAGER = "hanse"
OUR_CATEGORY = "hanse"
"""The category of our CustomResourceDefinitions; others are not changed."""


class Effect(StrEnum):
    """The effect of applying or removing a manifest."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    FOREIGN = "left"
    NEWER = "left as they are, of a newer release,"
    UNSERVED = "skipped"


_REPORTED = (Effect.CREATED, Effect.CHANGED, Effect.DELETED)
"""Effects that are printed one by one."""


class AppliedManifest(Struct, frozen=True):
    """A manifest, and the effect that applying it had or would have."""

    manifest: Manifest
    effect: Effect


async def apply(
    client: Client, wanted: Iterable[Manifest], *, dry_run: bool = False
) -> list[AppliedManifest]:
    """Create or merge-patch each manifest in order; a dry run only reads the API server.

    Returns each with its effect; unchanged, foreign, newer and unserved ones are left as they are.
    """
    return [AppliedManifest(one, await _apply(client, one, dry_run=dry_run)) for one in wanted]


async def remove(
    client: Client, unwanted: Iterable[Manifest], *, dry_run: bool = False
) -> list[AppliedManifest]:
    """Delete the object of each manifest in order; a dry run only reads.

    Returns all of them: DELETED (in a dry run: would be), or UNCHANGED for those that do not exist.
    """
    return [
        AppliedManifest(one, await _delete_unwanted(client, one, dry_run=dry_run))
        for one in unwanted
    ]


def deleted(done: Iterable[AppliedManifest]) -> list[AppliedManifest]:
    """Those whose effect is DELETED: what did not exist anyway is left out."""
    return [one for one in done if one.effect is Effect.DELETED]


async def _delete_unwanted(client: Client, unwanted: Manifest, *, dry_run: bool) -> Effect:
    """Delete the object, or only read it in a dry run; DELETED both times, UNCHANGED if absent."""
    if await read_existing(client, unwanted) is None:
        return Effect.UNCHANGED
    if not dry_run:
        with suppress(NotFound):
            await client.send(delete(unwanted.kind, unwanted.name, unwanted.namespace))
    return Effect.DELETED


async def apply_definitions(
    client: Client, wanted: Sequence[Manifest], *, dry_run: bool = False
) -> list[AppliedManifest]:
    """Apply CustomResourceDefinitions concurrently; unless a dry run, wait until they are served.

    Returns each with its effect, in order; raises `CommandFailed` if one is not Established within
    `SERVE_TIMEOUT`.
    """
    done = await asyncio.gather(*(_apply(client, one, dry_run=dry_run) for one in wanted))
    if not dry_run:
        await _wait_until_served(client, wanted)
    return [AppliedManifest(one, effect) for one, effect in zip(wanted, done, strict=True)]


async def read_existing(client: Client, wanted: Manifest) -> Wire | None:
    """Read the object of a manifest's kind and name from the API server.

    None if it does not exist, or its kind is not served.
    """
    try:
        answer = await client.send(read(wanted.kind, wanted.name, wanted.namespace))
    except NotFound:
        return None
    found: Wire = decode_json(answer.body)
    return found


async def _apply(client: Client, wanted: Manifest, *, dry_run: bool) -> Effect:
    """Create, merge-patch or leave one object, and return the effect; a dry run only reads.

    Never patched are create-only manifests, CustomResourceDefinitions that are not ours, and what a
    newer release has written.
    """
    found = await read_existing(client, wanted)
    if found is None:
        return await _create(client, wanted, dry_run=dry_run)
    if wanted.create_only or is_applied(found, wanted.wire):
        return Effect.UNCHANGED
    if _is_foreign(wanted, found):
        return Effect.FOREIGN
    if is_of_newer_release(found["metadata"].get("annotations") or {}):
        return Effect.NEWER
    if not dry_run:
        change = {k: v for k, v in wanted.wire.items() if k not in ("apiVersion", "kind")}
        place = (wanted.kind, wanted.name, wanted.namespace)
        await client.send(patch(*place, change, field_manager=_MANAGER))
    return Effect.CHANGED


async def _create(client: Client, wanted: Manifest, *, dry_run: bool) -> Effect:
    """Create an object; if it was created meanwhile, apply the manifest, and return that effect.

    Else CREATED, also in a dry run, which writes nothing; UNSERVED, without creating, for an
    optional manifest whose kind is not served.
    """
    if wanted.optional and not await _serves(client, wanted):
        return Effect.UNSERVED
    if not dry_run:
        request = create(wanted.kind, wanted.namespace, wanted.wire, field_manager=_MANAGER)
        try:
            await client.send(request)
        except AlreadyExists:  # created meanwhile: update it
            return await _apply(client, wanted, dry_run=dry_run)
    return Effect.CREATED


async def _serves(client: Client, wanted: Manifest) -> bool:
    """Whether the API server serves a manifest's kind, by a list: False after 404, others raise."""
    try:
        await client.send(Request("GET", resource_path(wanted.kind), (("limit", "1"),)))
    except NotFound:
        return False
    return True


def _is_foreign(wanted: Manifest, found: Wire) -> bool:
    """Whether an existing CustomResourceDefinition lacks our category; False for other kinds."""
    if wanted.kind != CustomResourceDefinition.kind:
        return False
    return OUR_CATEGORY not in (found["spec"]["names"].get("categories") or ())


async def _wait_until_served(client: Client, wanted: Sequence[Manifest]) -> None:
    """Wait until definitions are Established; raises `CommandFailed` after the time-out."""
    missing = list(wanted)
    try:
        async with asyncio.timeout(SERVE_TIMEOUT.total_seconds()):
            while missing := [one for one in missing if not await _is_established(client, one)]:  # noqa: ASYNC110 - there is nothing to watch
                await asyncio.sleep(_POLL_INTERVAL.total_seconds())
    except TimeoutError:
        seconds = int(SERVE_TIMEOUT.total_seconds())
        raise CommandFailed(
            f"{missing[0]} is not served after {seconds} s; see `kubectl describe crd`"
        ) from None


async def _is_established(client: Client, definition: Manifest) -> bool:
    """Whether the definition exists and its condition Established is True."""
    found = await read_existing(client, definition)
    conditions: Any = (found or {}).get("status", {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def is_applied(existing: Wire, wanted: Wire) -> bool:
    """Whether an object has all wanted fields, recursively; it may have others besides.

    But not in the rules of roles and the schemas of definitions, which have to be equal; lists have
    to be of the same length.
    """
    return contains(existing, wanted) and _closed_fields(existing) == _closed_fields(wanted)


def _closed_fields(obj: Wire) -> tuple[Any, list[Any]]:
    """The `rules` of a role and the schemas of a definition's versions; (None, []) if neither.

    Nobody adds fields to these: what they have besides is of an earlier version.
    """
    versions = obj.get("spec", {}).get("versions", ())
    return obj.get("rules"), [version.get("schema") for version in versions]


def report_applied(where: str, done: Sequence[AppliedManifest], *, dry_run: bool) -> None:
    """Print each object created, changed or deleted, or that there is nothing to change.

    Of CustomResourceDefinitions only how many were created, changed, or left as foreign or newer.
    For a dry run, print instead what would be done with each, with YAML. Unserved kinds go to
    stderr.
    """
    if dry_run:
        _show_manifests(where, done)
        return
    definitions = [a for a in done if a.manifest.kind == CustomResourceDefinition.kind]
    counts = Counter(one.effect for one in definitions)
    for effect in (Effect.CREATED, Effect.CHANGED, Effect.FOREIGN, Effect.NEWER):
        if counts[effect]:
            click.echo(f"{where}: {effect} the definitions of {counts[effect]} kinds")
    for one in done:
        if one not in definitions and one.effect in _REPORTED:
            click.echo(f"{where}: {one.effect} {one.manifest}")
    if not any(one.effect in _REPORTED for one in done):
        click.echo(f"{where}: nothing to change")
    for one in done:
        if one.effect is Effect.UNSERVED:
            text = f"{where} does not serve {one.manifest.kind}; {one.manifest.name} does not hold"
            click.echo(text, err=True)


def _show_manifests(where: str, done: Sequence[AppliedManifest]) -> None:
    """Print a line for each manifest of a dry run, and the YAML of those to create or change.

    The YAML is of the manifest itself, for a Secret without `data`: a dry run only reads clusters.
    """
    import yaml

    for one in done:
        click.echo(f"# {where}: {_dry_run_verb(one.effect)} {one.manifest}")
        if one.effect in (Effect.CREATED, Effect.CHANGED):
            text = yaml.safe_dump(_public(one.manifest), sort_keys=False, width=100)
            click.echo(f"---\n{text}", nl=False)


def _dry_run_verb(effect: Effect) -> str:
    """What a dry run would do for an effect, such as "would create"."""
    match effect:
        case Effect.CREATED:
            return "would create"
        case Effect.CHANGED:
            return "would change"
        case Effect.DELETED:
            return "would delete"
        case Effect.UNCHANGED:
            return "would keep"
        case Effect.FOREIGN:
            return "would leave to its owner"
        case Effect.NEWER:
            return "would leave to the newer release"
        case Effect.UNSERVED:
            return "does not serve and would skip"


def _public(shown: Manifest) -> Wire:
    """The manifest's object as JSON values; for a Secret without its `data`."""
    return {
        k: v for k, v in shown.wire.items() if not (shown.kind.name == "Secret" and k == "data")
    }
