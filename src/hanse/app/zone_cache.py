"""What a name server last knew of global hosts, in a file that survives its restart."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from hanse.features.gslb.zone import GlobalZone
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.probes import TargetHealth

log = logging.getLogger(__name__)

FILE = "global-hosts.json"
SAVE_INTERVAL = 2.0
"""Seconds between two writes of the file at most."""


class CachedHosts(Struct, frozen=True):
    """The GlobalServices and the health of their members."""

    services: tuple[GlobalService, ...] = ()
    health: tuple[TargetHealth, ...] = ()


def load_hosts(folder: Path) -> CachedHosts:
    """Read what was saved in a folder; empty if there is no file, or (logged) no readable one."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=CachedHosts)
    except FileNotFoundError:
        return CachedHosts()
    except (OSError, msgspec.DecodeError) as error:
        log.warning("cached hosts not read", extra={"folder": str(folder), "error": str(error)})
        return CachedHosts()


def save_hosts(folder: Path, hosts: CachedHosts) -> None:
    """Write the hosts to the file in a folder, which is created, atomically; raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{FILE}.new"
    temporary.write_bytes(msgspec.json.encode(hosts))
    temporary.replace(folder / FILE)


class HostCache:
    """Saves what zones know soon after it changes."""

    def __init__(
        self,
        folder: Path,
        zones: Iterable[GlobalZone],
        health: Callable[[], Iterable[TargetHealth]],
    ) -> None:
        """Nothing is saved until `running`; each save calls `health` for the state of targets."""
        self._folder = folder
        self._zones = tuple(zones)
        self._health = health
        self._changed = asyncio.Event()

    def note_change(self) -> None:
        """Have the file written soon, by the task of `running`."""
        self._changed.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Save changes until the block ends, and what is unsaved then."""
        async with asyncio.TaskGroup() as group:
            saving = group.create_task(self._save_changes(), name="host cache")
            try:
                yield
            finally:
                saving.cancel()
                if self._changed.is_set():
                    self._save()

    async def _save_changes(self) -> None:
        """Save at once after a change, then at most once in SAVE_INTERVAL; never returns."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._save()
            await asyncio.sleep(SAVE_INTERVAL)

    def _save(self) -> None:
        """Write the hosts that the zones know and the health of targets; a failure is logged."""
        services = {s.metadata.name: s for zone in self._zones for s in zone.known}
        try:
            save_hosts(self._folder, CachedHosts(tuple(services.values()), tuple(self._health())))
        except OSError as error:
            log.warning(
                "hosts not cached", extra={"folder": str(self._folder), "error": str(error)}
            )
