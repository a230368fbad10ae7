"""The PersistentVolume controller: provisions and binds a volume for each claim."""

from collections.abc import Iterable

from tinykube.controllers.controller import (
    DONE,
    VOLUME_CLAIMS,
    Create,
    Delete,
    Key,
    Lister,
    Patch,
    Result,
)
from tinykube.controllers.objects import (
    annotations_of,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from tinykube.resources import Object
from tinykube.storage import Change

PERSISTENT_VOLUMES = "persistentvolumes"
STORAGE_CLASSES = "storageclasses.storage.k8s.io"
STANDARD_CLASS = "standard"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_PROVISIONER = "sim.hanse.dev/volumes"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class PersistentVolumeController:
    """Provisions a volume for each pending claim and deletes it after the claim.

    With `binds` it also binds both; in a real cluster the controller manager does that.
    """

    name = "volumes"
    watches = frozenset((VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES))
    initial_keys = (Key(STORAGE_CLASSES, "", STANDARD_CLASS),)

    def __init__(self, *, binds: bool = True) -> None:
        """Without `binds`, volumes are only provisioned and deleted, not bound to claims."""
        self._binds = binds

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:  # noqa: ARG002 - the contract's
        """The key of a claim; for a deleted claim, that of its volume.

        For a volume, its own key and that of the claim in its claimRef. Nothing for a deleted
        volume or a StorageClass.
        """
        obj, deleted = change.object, change.type == "DELETED"
        match change.store:
            case "persistentvolumeclaims" if deleted:
                yield Key(PERSISTENT_VOLUMES, "", volume_name(obj))
            case "persistentvolumeclaims":
                yield key_of(VOLUME_CLAIMS, obj)
            case "persistentvolumes" if not deleted:
                yield key_of(PERSISTENT_VOLUMES, obj)
                if reference := spec_of(obj).get("claimRef"):
                    yield Key(VOLUME_CLAIMS, reference["namespace"], reference["name"])
            case _:
                return

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The creation of the standard StorageClass if absent, or writes to a claim or volume.

        The StorageClass is created for the key of any absent one. No writes for absent and
        terminating claims and volumes.
        """
        obj = lister.get(key.store, key.namespace, key.name)
        if key.store == STORAGE_CLASSES:
            return DONE if obj is not None else Result((_create_storage_class(),))
        if obj is None or is_deleting(obj):
            return DONE
        if key.store == VOLUME_CLAIMS:
            return self._reconcile_claim(obj, lister)
        return self._reconcile_volume(obj, lister)

    def _reconcile_claim(self, claim: Object, lister: Lister) -> Result:
        """The creation of a volume for a pending claim, or the patches that bind it and its volume.

        It binds only with `binds`, an unbound claim, and a volume not reserved for another.
        """
        volume = lister.get(PERSISTENT_VOLUMES, "", volume_name(claim))
        if volume is None:
            writes = (Create(PERSISTENT_VOLUMES, volume_for(claim)),)
            return Result(writes) if needs_volume(claim) else DONE
        bound = status_of(claim).get("phase") == "Bound"
        if not self._binds or bound or not can_bind(claim, volume):
            return DONE
        return Result(tuple(binding_patches(claim, volume)))

    def _reconcile_volume(self, volume: Object, lister: Lister) -> Result:
        """The deletion of a provisioned volume whose claim is gone or has another uid.

        Otherwise, with `binds`, the patch of its phase: Bound if it has a claimRef, else Available.
        """
        reference = spec_of(volume).get("claimRef")
        if _is_provisioned(volume) and reference:
            claim = lister.get(VOLUME_CLAIMS, reference["namespace"], reference["name"])
            if claim is None or uid_of(claim) != reference.get("uid"):
                return Result((Delete(PERSISTENT_VOLUMES, volume),))
        phase = "Bound" if reference else "Available"
        if not self._binds or status_of(volume).get("phase") == phase:
            return DONE
        body = {"status": {"phase": phase}}
        return Result((Patch(PERSISTENT_VOLUMES, volume, body, subresource="status"),))


def volume_name(claim: Object) -> str:
    """The spec.volumeName of a claim, else `pvc-UID`, the name of the volume provisioned for it."""
    return str(spec_of(claim).get("volumeName") or f"pvc-{uid_of(claim)}")


def needs_volume(claim: Object) -> bool:
    """Whether a claim is pending or without phase, and names no volume.

    Its storage class does not count.
    """
    pending = status_of(claim).get("phase", "") in ("", "Pending")
    return pending and not spec_of(claim).get("volumeName")


def volume_for(claim: Object) -> Object:
    """The volume that is provisioned for a claim, named `pvc-UID` and reserved by its claimRef.

    It has the claim's requests, access modes and class, `standard` by default, and the reclaim
    policy Retain.
    """
    spec = spec_of(claim)
    name = f"pvc-{uid_of(claim)}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {_PROVISIONED_BY: _PROVISIONER}},
        "spec": {
            "capacity": (spec.get("resources") or {}).get("requests") or {},
            "accessModes": spec.get("accessModes") or [],
            "claimRef": _claim_reference(claim),
            "storageClassName": spec.get("storageClassName", STANDARD_CLASS),
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            # this controller deletes the volume: the controller manager has no plugin for it
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/var/lib/hanse/volumes/{name}"},
        },
    }


def _claim_reference(claim: Object) -> Object:
    """The claimRef by which a volume is reserved for a claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace_of(claim),
        "name": name_of(claim),
        "uid": uid_of(claim),
    }


def can_bind(claim: Object, volume: Object) -> bool:
    """Whether a volume is reserved for the claim by its claimRef, or not reserved.

    A claimRef without uid counts if namespace and name are those of the claim. Class, size and
    access modes are not compared.
    """
    reference = spec_of(volume).get("claimRef")
    if not reference:
        return True
    claim_name = (reference.get("namespace"), reference.get("name"))
    is_own = claim_name == (namespace_of(claim), name_of(claim))
    return is_own and reference.get("uid", "") in ("", uid_of(claim))


def binding_patches(claim: Object, volume: Object) -> Iterable[Patch]:
    """The patches that reserve the volume, set the claim's volume name, and its phase to Bound.

    The first two only where that is not so yet. The phase of the volume is not changed.
    """
    if (spec_of(volume).get("claimRef") or {}).get("uid") != uid_of(claim):
        yield Patch(PERSISTENT_VOLUMES, volume, {"spec": {"claimRef": _claim_reference(claim)}})
    if not spec_of(claim).get("volumeName"):
        annotations = {_BIND_COMPLETED: "yes", _BOUND_BY_CONTROLLER: "yes"}
        body = {
            "metadata": {"annotations": annotations},
            "spec": {"volumeName": name_of(volume)},
        }
        yield Patch(VOLUME_CLAIMS, claim, body)
    status = {
        "phase": "Bound",
        "accessModes": spec_of(volume).get("accessModes") or [],
        "capacity": spec_of(volume).get("capacity") or {},
    }
    yield Patch(VOLUME_CLAIMS, claim, {"status": status}, subresource="status")


def _is_provisioned(volume: Object) -> bool:
    """Whether a volume's annotation provisioned-by names this controller."""
    return annotations_of(volume).get(_PROVISIONED_BY) == _PROVISIONER


def _create_storage_class() -> Create:
    """The creation of the default StorageClass `standard`, without provisioner."""
    return Create(
        STORAGE_CLASSES,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": STANDARD_CLASS, "annotations": {_DEFAULT_CLASS: "true"}},
            "provisioner": "kubernetes.io/no-provisioner",
            "reclaimPolicy": "Retain",
            "volumeBindingMode": "Immediate",
        },
    )
