"""A volume for each claim, of a class that provisions nothing.

It speaks to any API server. Beside a real controller manager that one binds; in an embedded
cluster there is none, and `binds` does it here.
"""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from random import Random
from typing import ClassVar

from hanse.kube.client import Client
from hanse.kube.errors import AlreadyExists
from hanse.kube.request import Transport
from hanse.kube.store import Name, Store
from hanse.kube.watching import follow
from hanse.model.kinds.core import ObjectReference, PersistentVolumeClaim
from hanse.model.objects import Kind, Meta, Object, Value, Wire
from tinykube.controllers.keyed import NameQueue

CLASS = "standard"
_PROVIDED = "pv.kubernetes.io/provisioned-by"
_PROVIDER = "sim.hanse.dev/volumes"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class HostPath(Value, frozen=True, kw_only=True):
    """A folder of a node."""

    path: str


class VolumeSpec(Value, frozen=True, kw_only=True):
    """What a volume offers and whose it is."""

    capacity: dict[str, str] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str = ""
    persistent_volume_reclaim_policy: str = ""
    host_path: HostPath | None = None


class VolumeStatus(Value, frozen=True, kw_only=True):
    """Whether a volume is taken."""

    phase: str = ""


class PersistentVolume(Object, frozen=True, kw_only=True):
    """A piece of storage of one cluster."""

    kind: ClassVar[Kind] = Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)

    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class StorageClass(Object, frozen=True, kw_only=True):
    """A way in which claims get volumes."""

    kind: ClassVar[Kind] = Kind(
        "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False
    )

    provisioner: str
    reclaim_policy: str = ""
    volume_binding_mode: str = ""


def standard_class() -> StorageClass:
    """The class of claims that name none."""
    return StorageClass(
        metadata=Meta(name=CLASS, annotations={_DEFAULT_CLASS: "true"}),
        provisioner="kubernetes.io/no-provisioner",
        reclaim_policy="Retain",
        volume_binding_mode="Immediate",
    )


def volume_for(claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume that exactly one claim can have."""
    name = f"pvc-{claim.metadata.uid}"
    return PersistentVolume(
        metadata=Meta(name=name, annotations={_PROVIDED: _PROVIDER}),
        spec=VolumeSpec(
            capacity=dict(claim.spec.resources.requests),
            access_modes=claim.spec.access_modes,
            claim_ref=_reference(claim),
            storage_class_name=_class_of(claim),
            volume_mode=claim.spec.volume_mode,
            # what is provided here is removed here: the controller manager could not
            persistent_volume_reclaim_policy="Retain",
            host_path=HostPath(path=f"/var/lib/hanse/volumes/{name}"),
        ),
    )


def _class_of(claim: PersistentVolumeClaim) -> str:
    """The class a claim names, or the one that it is given for lack of one."""
    named = claim.spec.storage_class_name
    return CLASS if named is None else named


def _reference(claim: PersistentVolumeClaim) -> ObjectReference:
    return ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.metadata.uid,
    )


def needs_volume(claim: PersistentVolumeClaim) -> bool:
    """Whether nobody has found a volume for a claim yet."""
    waiting = claim.status.phase in ("", "Pending") and not claim.spec.volume_name
    return waiting and claim.metadata.deletion_timestamp is None


def is_left(volume: PersistentVolume, claims: Iterable[PersistentVolumeClaim]) -> bool:
    """Whether a volume was provided here for a claim that is gone."""
    reference = volume.spec.claim_ref
    if volume.metadata.annotations.get(_PROVIDED) != _PROVIDER or reference is None:
        return False
    if volume.metadata.deletion_timestamp is not None:
        return False
    return all(claim.metadata.uid != reference.uid for claim in claims)


def can_bind(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether a volume is a claim's, or nobody's."""
    reference = volume.spec.claim_ref
    if reference is None:
        return True
    named = (reference.namespace, reference.name) == (claim.namespace, claim.name)
    return named and reference.uid in ("", claim.metadata.uid)


class Volumes:
    """Provides volumes for as long as it runs."""

    def __init__(
        self, transport: Transport, *, binds: bool = False, random: Random | None = None
    ) -> None:
        self._client = Client(transport, field_manager="hanse-volumes")
        self._random = random or Random()  # noqa: S311 - spreads retries, guards nothing
        self._binds = binds
        self._claims: Store[PersistentVolumeClaim] = Store()
        self._volumes: Store[PersistentVolume] = Store()
        self._queue = NameQueue(self._random)

    async def run(self) -> None:
        """Run until cancelled; once every claim has its volume it writes nothing."""
        self._queue.add(("", ""))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_claims(), name="claims watch")
            group.create_task(self._follow_volumes(), name="volumes watch")
            group.create_task(self._queue.serve(self._serve), name="volumes writes")

    async def _follow_claims(self) -> None:
        stream = follow(self._client, PersistentVolumeClaim, random=self._random)
        async with aclosing(stream) as events:
            async for event in events:
                for change in self._claims.take(event):
                    if change.after is not None:
                        self._queue.add((change.after.namespace, change.after.name))
                    elif change.before is not None:
                        self._queue.add(("", change.before.spec.volume_name))
                if self._claims.lists == 1:
                    for volume in self._volumes.all():
                        self._queue.add(("", volume.name))

    async def _follow_volumes(self) -> None:
        stream = follow(self._client, PersistentVolume, random=self._random)
        async with aclosing(stream) as events:
            async for event in events:
                for change in self._volumes.take(event):
                    if change.after is not None:
                        self._queue.add(("", change.after.name))
                        if (reference := change.after.spec.claim_ref) is not None:
                            self._queue.add((reference.namespace, reference.name))

    async def _serve(self, name: Name) -> None:
        """A claim has a namespace, a volume has none; without a name it is the class."""
        namespace, short = name
        if not short:
            await self._ensure_class()
        elif namespace:
            await self._serve_claim(namespace, short)
        else:
            await self._serve_volume(short)

    async def _ensure_class(self) -> None:
        try:
            await self._client.create(standard_class())
        except AlreadyExists:
            return

    async def _serve_claim(self, namespace: str, name: str) -> None:
        claim = self._claims.get(namespace, name)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return
        if needs_volume(claim):
            await self._provide(claim)
        if self._binds and claim.status.phase != "Bound":
            await self._bind(claim)

    async def _provide(self, claim: PersistentVolumeClaim) -> None:
        wanted = volume_for(claim)
        if self._volumes.get("", wanted.name) is not None:
            return
        try:
            self._volumes.put(await self._client.create(wanted))
        except AlreadyExists:
            return  # an earlier run made it; the watch will tell

    async def _bind(self, claim: PersistentVolumeClaim) -> None:
        name = claim.spec.volume_name or f"pvc-{claim.metadata.uid}"
        volume = self._volumes.get("", name)
        if volume is None or not can_bind(claim, volume):
            return
        change: Wire = {
            "metadata": {
                "uid": claim.metadata.uid,
                "annotations": {_BIND_COMPLETED: "yes", _BOUND_BY_CONTROLLER: "yes"},
            },
            "spec": {"volumeName": name},
        }
        if not claim.spec.volume_name:
            await self._patch_claim(claim, change)
        status = {
            "phase": "Bound",
            "accessModes": list(volume.spec.access_modes),
            "capacity": volume.spec.capacity,
        }
        uid = {"metadata": {"uid": claim.metadata.uid}}
        await self._patch_claim(claim, {**uid, "status": status}, subresource="status")

    async def _patch_claim(
        self, claim: PersistentVolumeClaim, change: Wire, *, subresource: str = ""
    ) -> None:
        changed = await self._client.patch(
            PersistentVolumeClaim, claim.name, claim.namespace, change, subresource=subresource
        )
        self._claims.put(changed)

    async def _serve_volume(self, name: str) -> None:
        volume = self._volumes.get("", name)
        if volume is None or not self._claims.synced:
            return
        if is_left(volume, self._claims.all()):
            await self._client.delete(PersistentVolume, name, "", uid=volume.metadata.uid)
        elif self._binds and volume.metadata.deletion_timestamp is None:
            phase = "Bound" if volume.spec.claim_ref is not None else "Available"
            if volume.status.phase != phase:
                change = {"metadata": {"uid": volume.metadata.uid}, "status": {"phase": phase}}
                self._volumes.put(
                    await self._client.patch(
                        PersistentVolume, name, "", change, subresource="status"
                    )
                )
