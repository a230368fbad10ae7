"""The members of a local federation: roles, address ranges, and the interface of a cluster."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from hanse.kube.client_config import Credentials
from hanse.kube.transport import Transport
from hanse.local.kubeconfig import Context
from hanse.local.ranges import MAX_CLUSTERS, AddressRanges, address_ranges
from hanse.local.up.errors import InvalidClusterNames

BROKER = "broker"
NODES_PER_CLUSTER = 3
MAX_MEMBERS = MAX_CLUSTERS - 1
"""The broker needs address ranges too."""

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

Report = Callable[[str], None]
"""Shows one line of progress."""

MemberRole = Literal["supervisor", "child", "broker"]


class LocalMember(Struct, frozen=True):
    """One cluster: its name, its role in the federation, and its address ranges."""

    name: str
    role: MemberRole
    ranges: AddressRanges

    @property
    def runs_workloads(self) -> bool:
        """Whether it is a member of the federation, and not the broker."""
        return self.role != "broker"

    @property
    def nodes(self) -> int:
        """How many simulated nodes it has; 0 for the broker."""
        return NODES_PER_CLUSTER if self.runs_workloads else 0


def plan_members(names: Sequence[str]) -> tuple[LocalMember, ...]:
    """The members in order, the broker last; the first two are supervisors, the others children.

    Each has the address ranges of its place. Raises `InvalidClusterNames`.
    """
    _validate_names(names)
    roles: list[MemberRole] = ["supervisor" if n < 2 else "child" for n in range(len(names))]
    named = [*zip(names, roles, strict=True), (BROKER, "broker")]
    return tuple(
        LocalMember(name, role, address_ranges(index)) for index, (name, role) in enumerate(named)
    )


def _validate_names(names: Sequence[str]) -> None:
    """Raise `InvalidClusterNames` for invalid, reserved or repeated names, none or too many."""
    if not 1 <= len(names) <= MAX_MEMBERS:
        raise InvalidClusterNames(
            f"{len(names)} clusters were asked for; give 1 to {MAX_MEMBERS} names"
        )
    for name in names:
        if not _NAME.fullmatch(name):
            raise InvalidClusterNames(
                f"cluster name {name!r} is not a DNS label; "
                "use up to 63 lower-case letters, digits and dashes, beginning with a letter"
            )
        if name == BROKER:
            raise InvalidClusterNames(f"cluster name {name!r} is the broker's own; choose another")
        if names.count(name) > 1:
            raise InvalidClusterNames(f"cluster name {name!r} is given twice; names must differ")


class LocalCluster(Protocol):
    """A cluster of either engine that can be killed, started and slowed down."""

    @property
    def url(self) -> str:
        """The URL of its API server."""
        ...

    @property
    def context(self) -> Context:
        """The administrator's kubeconfig context."""
        ...

    @property
    def running(self) -> bool:
        """Whether its API server runs."""
        ...

    @property
    def delay(self) -> timedelta:
        """How long requests are delayed, as set by `slow`."""
        ...

    def connect(self) -> Transport:
        """A transport as administrator, with the configured delay; the caller closes it."""
        ...

    def dial(self, credentials: Credentials) -> Transport:
        """A transport with these credentials, which the cluster checks, and with its delay."""
        ...

    async def kill(self) -> None:
        """Stop its API server; connections are refused afterwards, and the objects stay."""
        ...

    async def start(self) -> None:
        """Start its API server again, with all its objects; no effect if it runs.

        Raises `UpError` if it does not start.
        """
        ...

    async def save(self, file: Path) -> None:
        """Write all its objects to a file; raises `UpError` if that fails."""
        ...

    async def restore(self, file: Path, bump_revision: int) -> None:
        """Replace its objects by those of a file, and start it; raises `UpError` if that fails.

        New versions begin `bump_revision` after the saved ones.
        """
        ...

    def slow(self, delay: timedelta) -> None:
        """Delay every later response by that long; zero ends the delay."""
        ...
