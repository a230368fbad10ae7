"""Claims to storage of the core group."""

from typing import ClassVar, Literal

from hanse.model.objects import Kind, Object, Value


class VolumeRequests(Value, frozen=True, kw_only=True):
    """How much storage is asked for."""

    requests: dict[str, str] = {}


class PersistentVolumeClaimSpec(Value, frozen=True, kw_only=True):
    """The requested storage, and the bound volume."""

    access_modes: tuple[str, ...] = ()
    resources: VolumeRequests = VolumeRequests()
    storage_class_name: str | None = None
    volume_mode: Literal["Filesystem", "Block"] = "Filesystem"
    volume_name: str = ""


class PersistentVolumeClaimStatus(Value, frozen=True, kw_only=True):
    """Whether the claim is bound."""

    phase: Literal["Pending", "Bound", "Lost", ""] = ""
    capacity: dict[str, str] = {}


class PersistentVolumeClaim(Object, frozen=True, kw_only=True):
    """A claim to storage of one cluster."""

    kind: ClassVar[Kind] = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
