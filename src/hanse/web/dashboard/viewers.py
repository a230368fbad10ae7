"""Who looks at the page, and what of an update they may see."""

from typing import Any, Protocol

import msgspec
from msgspec import Struct

CLUSTER_SCOPED = frozenset({"checks", "clusters", "links", "networks", "reach", "gslb-leaders"})
"""Sections whose items are in no namespace."""


class Viewer(Struct, frozen=True):
    """A person or a program that looks at the page."""

    name: str = ""
    namespaces: frozenset[str] | None = None
    """The namespaces that they may see; None for all, and all that is in none."""

    def may_see_namespace(self, namespace: str) -> bool:
        """Whether what is in a namespace is shown; True if it is empty, as for clusters."""
        return self.namespaces is None or not namespace or namespace in self.namespaces

    def may_see(self, section: str, key: str) -> bool:
        """Whether an item is shown: the viewer may see the namespace in its key, or it is in none.

        Of the sections `CLUSTER_SCOPED`, limited viewers see only clusters and links.
        """
        if self.namespaces is None or section in CLUSTER_SCOPED:
            return self.namespaces is None or section in ("clusters", "links")
        return self.may_see_namespace(item_namespace(section, key))


class AccessUnknown(Exception):
    """Who somebody is, or what they may see, cannot be asked now."""


class Access(Protocol):
    """Admits viewers by what they bring; raises `AccessUnknown`."""

    async def admit(self, token: str) -> str | None:
        """The value of a cookie for who brings a valid token; None for others."""
        ...

    async def viewer(self, credential: str) -> Viewer | None:
        """Who has a cookie's value, or a bearer token; None if it is not valid any more."""
        ...

    def redeem(self, code: str) -> str | None:
        """The value of a cookie for a one-time code; None where there are none."""
        ...


def item_namespace(section: str, key: str) -> str:
    """The namespace of an item, by its key; empty where it is in none.

    Not for the sections `CLUSTER_SCOPED`, whose keys name no namespace.
    """
    if section == "findings":
        return key.split("/")[3]
    if section.endswith("-objects"):
        return key.rsplit("|", 3)[2]
    return key.partition("/")[0]


class _Update(Struct, omit_defaults=True):
    put: dict[str, dict[str, msgspec.Raw]] = {}
    gone: dict[str, list[str]] = {}
    timeline: list[dict[str, Any]] = []
    around: msgspec.Raw | None = None
    first: bool = False
    judged: bool = False


def filter_update(update: bytes, viewer: Viewer) -> bytes:
    """The JSON of an update without what a viewer may not see; unchanged if they see all.

    Items are judged by section and key, timeline entries and the consequences of a finding by
    namespace; the local state stays.
    """
    if viewer.namespaces is None:
        return update
    given = msgspec.json.decode(update, type=_Update)
    put = {
        section: {
            key: _without_others(item, viewer) if section == "findings" else item
            for key, item in items.items()
            if viewer.may_see(section, key)
        }
        for section, items in given.put.items()
    }
    gone = {
        section: [key for key in keys if viewer.may_see(section, key)]
        for section, keys in given.gone.items()
    }
    timeline = [one for one in given.timeline if viewer.may_see_namespace(one.get("namespace", ""))]
    return msgspec.json.encode(
        _Update(put, gone, timeline, given.around, given.first, given.judged)
    )


def _without_others(finding: msgspec.Raw, viewer: Viewer) -> msgspec.Raw:
    """A finding, as JSON, without consequences in namespaces that the viewer may not see."""
    told = msgspec.json.decode(finding)
    told["consequences"] = [
        one
        for one in told["consequences"]
        if viewer.may_see_namespace(one["subject"].get("namespace", ""))
    ]
    return msgspec.Raw(msgspec.json.encode(told))
