"""The interfaces of pods on this node, by what its CNI plugin kept of each of them."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from hanse.app.cni_folders import CniFolders
from hanse.features.networks.cni import parse_pod
from hanse.features.networks.guard.vpcs import Attachment, attachment
from hanse.model.json_input import decode_json

_LONGEST_CALL = 3600.0
"""Older folders of calls are left from calls that were killed."""


class Attachments:
    """Which pod has which interface; one whose plugin did not say so is not there."""

    def __init__(self, folders: CniFolders) -> None:
        self._folders = folders
        self._known: dict[str, Attachment] = {}
        """By the name of the attachment's folder."""

    def __iter__(self) -> Iterator[Attachment]:
        return iter(self._known.values())

    def is_attached(self, namespace: str, name: str) -> bool:
        """Whether a pod of that namespace and name has a known interface here."""
        return any((a.pod.namespace, a.pod.name) == (namespace, name) for a in self)

    def load(self) -> None:
        """Read all attachments from the state folder; those that cannot be read are left out."""
        for path in self._folders.state.glob("attached-*"):
            try:
                self.add(path.name)
            except (OSError, msgspec.DecodeError):
                continue

    def add(self, folder: str) -> bool:
        """Read one attachment from its folder, and return whether it differs from the one known.

        It replaces others of the same interface; one without a pod or interface is forgotten.
        Raises `OSError` or `DecodeError` if its files cannot be read; it is forgotten then, too.
        """
        path, before = self._folders.state / folder, self._known.pop(folder, None)
        ref = parse_pod((path / "args").read_text())
        result = decode_json((path / "result").read_bytes(), type=dict[str, Any])
        found = attachment(ref, result, self._joined) if ref is not None else None
        if found is not None:
            self._known = {f: a for f, a in self._known.items() if a.interface != found.interface}
            self._known[folder] = found
        return found != before

    def drop(self, folder: str) -> bool:
        """Forget an attachment, and return whether there was one."""
        return self._known.pop(folder, None) is not None

    def refresh(self) -> bool:
        """Read the bridges and VRFs of all known interfaces again; returns whether any has changed.

        Interfaces that are gone, or are bridges now, are dropped, which counts.
        """
        before = self._known
        joined = {folder: self._joined(one.interface) for folder, one in before.items()}
        self._known = {
            folder: replace(before[folder], joined=others)
            for folder, others in joined.items()
            if others is not None
        }
        return self._known != before

    def _joined(self, interface: str) -> tuple[str, ...] | None:
        """The bridge of an interface, or its VRF and the other interfaces of that; empty for none.

        None if the interface does not exist, or is a bridge itself: then it is no pod's.
        """
        links = self._folders.system / "sys/class/net"
        if not (links / interface).exists() or (links / interface / "bridge").is_dir():
            return None
        try:
            master = (links / interface / "master").readlink().name
        except OSError:
            return ()
        if (links / master / "bridge").is_dir():
            return (master,)
        lower = (path.name.removeprefix("lower_") for path in (links / master).glob("lower_*"))
        return (master, *sorted(name for name in lower if name != interface))


def is_virtual(link: Path) -> bool:
    """Whether an interface may be the node's end of a pod's, such as a veth.

    False for hardware, a tunnel (tun or tap), and what the kernel gives a DEVTYPE, such as a bridge
    or VLAN.
    """
    try:
        described = "DEVTYPE=" in (link / "uevent").read_text()
    except OSError:
        described = False
    return not (described or (link / "device").exists() or (link / "tun_flags").exists())


def changed_at(path: Path) -> float:
    """When a folder was last changed, as Unix time; 0 if that cannot be read."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def remove_stale_call_folders(state: Path) -> None:
    """Delete the folders of CNI calls that were last modified more than an hour ago.

    The plugin deletes its call's folder when it exits; if it is killed, the folder stays behind.
    """
    for call in state.glob("call-*"):
        if changed_at(call) < time.time() - _LONGEST_CALL:
            shutil.rmtree(call, ignore_errors=True)
