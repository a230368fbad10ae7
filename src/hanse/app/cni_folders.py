"""The files of the CNI plugin on a node: what is where, and how a node gets rid of them."""

import asyncio
import logging
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from hanse.features.networks.cni import (
    CONFIG_FILE,
    PLUGIN,
    STATE_FOLDER,
    CniError,
    uses_our_plugin,
)
from hanse.features.networks.cni_script import SCRIPT_MARK
from hanse.features.networks.guard.ports import PORTS_REMOVAL
from hanse.model.json_input import decode_json

log = logging.getLogger(__name__)

RELOAD_SECONDS = 1.0
"""How long a runtime may take to notice that its configuration has changed."""
_REMEMBERED = "folders"


class CniFolders(Struct, frozen=True):
    """The folders of a node: network configurations, plugins, and our own state."""

    config: Path
    plugins: Path
    state: Path = Path(STATE_FOLDER)
    system: Path = Path("/")


class Commands(Protocol):
    """Where nftables commands run: all of a call, or none."""

    def run(self, commands: str) -> str:
        """Run commands as one transaction, and return their output; raises `NftablesError`."""
        ...


def remember_folders(folders: CniFolders) -> None:
    """Write the folders of configurations and plugins to the state folder, for a later removal."""
    names = {"config": str(folders.config), "plugins": str(folders.plugins)}
    write_file(folders.state / _REMEMBERED, msgspec.json.encode(names), mode=0o600)


def installed_folders(
    state: Path = Path(STATE_FOLDER), system: Path = Path("/")
) -> CniFolders | None:
    """The folders that `remember_folders` wrote to the state folder; None if there are none.

    None also if they cannot be read, which is logged.
    """
    try:
        names = decode_json((state / _REMEMBERED).read_bytes(), type=dict[str, str])
        return CniFolders(Path(names["config"]), Path(names["plugins"]), state, system)
    except FileNotFoundError:
        return None
    except (OSError, KeyError, msgspec.DecodeError) as error:
        log.warning("the folders of the CNI plugin are unreadable", extra={"why": str(error)})
        return None


def all_folders(given: CniFolders | None, installed: CniFolders | None) -> list[CniFolders]:
    """The folders that the plugin may be in: those given, then those installed, each once.

    Empty if both are None.
    """
    return list(dict.fromkeys(one for one in (given, installed) if one is not None))


async def give_back_config(places: Iterable[CniFolders]) -> None:
    """Delete our network configurations, so that runtimes use the node's own again.

    Waits RELOAD_SECONDS if there was one.
    """
    ours = [path for one in places if (path := one.config / CONFIG_FILE).exists()]
    for path in ours:
        path.unlink(missing_ok=True)
    if ours:
        await asyncio.sleep(RELOAD_SECONDS)


async def remove_plugin(places: Iterable[CniFolders], rules: Commands) -> None:
    """Give a node its own configuration back, then remove everything else of ours.

    What the end of running pods needs stays, as some runtimes end them by the configuration that
    they started with; another removal takes it away when they are gone. Raises `NftablesError` if
    the rules cannot be removed; the configuration is the node's own then, too.
    """
    places = list(places)
    await give_back_config(places)
    if places:
        rules.run(PORTS_REMOVAL)
    for folders in places:
        _remove_files(folders)


def _remove_files(folders: CniFolders) -> None:
    """Remove our script and the state of the plugin.

    While pods that it attached run, the script and what their end needs stay, which is logged. A
    script of others always stays.
    """
    found = list(folders.state.iterdir()) if folders.state.is_dir() else []
    running = {path for path in found if _is_attached(path, folders)}
    kept = running | {folders.state / name for name in (_REMEMBERED, "fallback") if running}
    for path in found:
        if path not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if running:
        extra = {"pods": len(running), "folder": str(folders.state)}
        log.info("pods of the CNI plugin run; its script stays for their end", extra=extra)
    else:
        script = folders.plugins / PLUGIN
        if is_our_script(script):
            script.unlink(missing_ok=True)


def is_our_script(path: Path) -> bool:
    """Whether a file is absent, or a script that a guard has written.

    False for a file of others; other errors than its absence are raised.
    """
    try:
        return SCRIPT_MARK.encode() in path.read_bytes()
    except FileNotFoundError:
        return True


def _is_attached(path: Path, folders: CniFolders) -> bool:
    """Whether this is the folder of an attachment of which an interface on the node exists.

    Also if its result names no such interface; not if its result cannot be read.
    """
    if not path.name.startswith("attached-"):
        return False
    links = folders.system / "sys/class/net"
    try:
        result = decode_json((path / "result").read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return False
    listed = [one for one in result.get("interfaces") or () if isinstance(one, dict)]
    names = [str(one.get("name", "")) for one in listed if not one.get("sandbox")]
    ports = [links / name for name in names if not (links / name / "bridge").is_dir()]
    return not ports or any(port.exists() for port in ports)


def write_file(path: Path, content: bytes, mode: int) -> None:
    """Replace a file atomically, with this mode, unless it has this content already.

    A file that has it stays as it is, whatever its mode.
    """
    if path.is_file() and path.read_bytes() == content:
        return
    written = path.with_name(f".{path.name}.new")
    written.write_bytes(content)
    written.chmod(mode)
    written.rename(path)


def names_our_plugin(config: Path) -> bool:
    """Whether the first plugin of a network configuration is ours; False if it is malformed.

    Raises `OSError` if it cannot be read.
    """
    try:
        return uses_our_plugin(config.read_bytes())
    except CniError:
        return False


def first_config(folder: Path) -> Path | None:
    """The network configuration that runtimes take without ours: the first by name; else None.

    Of files that end in `.conf`, `.conflist` or `.json`.
    """
    kinds = (".conf", ".conflist", ".json")
    found = [p for p in folder.iterdir() if p.suffix in kinds and p.name != CONFIG_FILE]
    return min(found, key=lambda path: path.name, default=None)
