"""What a look finds out about multi-cluster services; pure."""

from typing import Any

from msgspec import Struct

from hanse.model.ownership import OWNER


class ExportState(Struct, frozen=True):
    """One export: whether all clusters can use it, and what is wrong with it."""

    namespace: str
    name: str
    ready: bool
    trouble: str = ""


class ServiceInventory(Struct, frozen=True):
    """What one cluster exports and imports."""

    exports: tuple[ExportState, ...] = ()
    imports: int = 0
    foreign: tuple[tuple[str, str], ...] = ()
    """Imports that were not made by Hanse, by namespace and name."""

    @property
    def ready(self) -> int:
        return sum(export.ready for export in self.exports)


def services_in(
    exports: dict[str, Any] | None, imports: dict[str, Any] | None
) -> ServiceInventory | None:
    """From both lists; None where the cluster does not serve them."""
    if exports is None or imports is None:
        return None
    imported = [one["metadata"] for one in imports.get("items") or ()]
    return ServiceInventory(
        tuple(_export(one) for one in exports.get("items") or ()),
        len(imported),
        tuple((m["namespace"], m["name"]) for m in imported if OWNER not in m.get("labels", {})),
    )


def _export(export: dict[str, Any]) -> ExportState:
    told = {one["type"]: one for one in export.get("status", {}).get("conditions") or ()}
    ready = told.get("Ready", {}).get("status") == "True"
    metadata = export["metadata"]
    return ExportState(metadata["namespace"], metadata["name"], ready, _trouble(told))


def _trouble(told: dict[str, dict[str, Any]]) -> str:
    """What a person must do something about: what is only pending is no trouble yet."""
    invalid, ready, conflict = (told.get(name, {}) for name in ("Valid", "Ready", "Conflict"))
    if invalid.get("status") == "False":
        return str(invalid.get("message") or invalid.get("reason"))
    if conflict.get("status") == "True":
        return str(conflict.get("message") or conflict.get("reason"))
    if ready.get("status") == "False" and ready.get("reason") != "Pending":
        return str(ready.get("message") or ready.get("reason"))
    for name in ("SettingsValid", "AddressesAllowed", "ImportedHere"):
        if told.get(name, {}).get("status") == "False":
            return str(told[name].get("message") or told[name].get("reason"))
    return ""
