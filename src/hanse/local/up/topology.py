"""The members of a local federation: roles, address ranges, and the interface of a cluster."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, Protocol

from msgspec import Struct

from hanse.kube.access import Credentials
from hanse.kube.request import Transport
from hanse.local.kubeconfig import Context
from hanse.local.ranges import AddressRanges, address_ranges
from hanse.local.up.errors import InvalidClusterNames

BROKER = "broker"
NODES = 3
MOST = 99
"""Clusters beside the broker, for each has address ranges of its own."""

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

MemberRole = Literal["supervisor", "child", "broker"]


class Member(Struct, frozen=True):
    """One cluster: its name, its place in the federation, and its address ranges."""

    name: str
    standing: MemberRole
    ranges: AddressRanges

    @property
    def runs_workloads(self) -> bool:
        return self.standing != "broker"

    @property
    def nodes(self) -> int:
        return NODES if self.runs_workloads else 0

    def reaches(self, other: "Member") -> bool:
        """Whether its agent finds a way to another cluster: children do not to supervisors."""
        return not (self.standing == "child" and other.standing == "supervisor")


def plan_members(names: Sequence[str]) -> tuple[Member, ...]:
    """The members in order, the broker last; the first two supervise the others."""
    _check(names)
    standings: list[MemberRole] = ["supervisor" if n < 2 else "child" for n in range(len(names))]
    named = [*zip(names, standings, strict=True), (BROKER, "broker")]
    return tuple(
        Member(name, standing, address_ranges(index))
        for index, (name, standing) in enumerate(named)
    )


def _check(names: Sequence[str]) -> None:
    if not 1 <= len(names) <= MOST:
        raise InvalidClusterNames(f"{len(names)} clusters were asked for; give 1 to {MOST} names")
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


class Cluster(Protocol):
    """A cluster that runs beside us, and can be killed, started again and made slow."""

    @property
    def url(self) -> str: ...

    @property
    def context(self) -> Context:
        """The administrator's part of a kubeconfig."""
        ...

    @property
    def running(self) -> bool: ...

    @property
    def delay(self) -> timedelta: ...

    def connect(self) -> Transport:
        """A transport for an agent, as slow as the cluster was made; the caller closes it."""
        ...

    def dial(self, credentials: Credentials) -> Transport:
        """The same for an agent that was given credentials, which are judged."""
        ...

    async def kill(self) -> None:
        """Stop its API server: connections are refused from now on."""
        ...

    async def start(self) -> None:
        """Bring its API server back, with all that it held."""
        ...

    def slow(self, delay: timedelta) -> None:
        """Let every answer wait that long."""
        ...
