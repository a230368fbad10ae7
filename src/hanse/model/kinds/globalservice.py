"""The kind `GlobalService`: what one host name is answered with, everywhere, and who is up."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from hanse.model.kinds.field_types import Address, Conditions, PortNumber
from hanse.model.kinds.gslb import Algorithm, FallbackAlgorithm, WhenDown
from hanse.model.objects import Kind, Object, Value, wire_field
from hanse.model.schema import SUBDOMAIN, Column, Crd, Schema
from hanse.model.weights import MOST_WEIGHT

MonitorType = Literal["TCP", "TLS", "UDP", "HTTP", "HTTPS", "GRPC", "GRPCS"]
Name = Annotated[str, Schema(max_length=253)]
Seconds = Annotated[int, Schema(minimum=1, maximum=3600)]
MAX_PAYLOAD = 1024
"""Characters of a request or response by UDP."""
Times = Annotated[int, Schema(minimum=1, maximum=50)]


class Monitor(Value, frozen=True, kw_only=True):
    """How it is found out whether a member is up."""

    type: Annotated[MonitorType, Schema("What is tried.")]
    port: Annotated[PortNumber, Schema("Where.")]
    path: Annotated[str, Schema("What is asked for by HTTP.", max_length=1024)] = ""
    method: Annotated[Literal["", "HEAD", "GET"], Schema("How by HTTP; empty: HEAD.")] = ""
    headers: Annotated[str, Schema("More headers by HTTP, one in a line.", max_length=2048)] = ""
    codes: Annotated[
        str, Schema("Good HTTP status codes, as 200,3xx; empty: 2xx,3xx.", max_length=256)
    ] = ""
    server_name: Annotated[Name, Schema("The name for TLS (SNI); empty: the host.")] = ""
    service: Annotated[Name, Schema("What is asked about by gRPC; empty: the whole server.")] = ""
    request: Annotated[
        str, Schema(r"What is sent by UDP; \xHH is a byte.", max_length=MAX_PAYLOAD)
    ] = ""
    response: Annotated[
        str, Schema(r"What a UDP answer has to contain; \xHH is a byte.", max_length=MAX_PAYLOAD)
    ] = ""
    interval: Annotated[Seconds, Schema("Seconds between two tries.")] = 10
    timeout: Annotated[Seconds, Schema("Seconds after which a try has failed.")] = 4
    up: Annotated[Times, Schema("Good tries in a row that bring it up.")] = 3
    down: Annotated[Times, Schema("Bad tries in a row that take it down.")] = 3


MAX_PATHS = 50
"""Paths of a member that are shown."""


class PathReadiness(Value, frozen=True, kw_only=True):
    """One path of a host at a member."""

    path: Annotated[str, Schema("The path; empty for a Service.", max_length=1024)] = ""
    ready: Annotated[bool, Schema("Whether something is ready behind it.", default=True)] = True
    source: Annotated[str, Schema("The object that brought it.", max_length=600)] = ""
    monitor: Annotated[Monitor | None, Schema("What finds out whether it is up.")] = None


class GlobalMember(Value, frozen=True, kw_only=True):
    """One address that serves the host."""

    cluster: Annotated[Name, Schema("The cluster's context, or the site of a third party.")]
    address: Annotated[Address, Schema("Where it is watched, and told to clients.")]
    hostname: Annotated[Name, Schema("The load balancer's name that has this address.")] = ""
    public_ip: Annotated[Address, Schema("What clients are told instead.")] = wire_field(
        "publicIP", ""
    )
    weight: Annotated[
        int, Schema("Its share among those of its priority.", minimum=0, maximum=MOST_WEIGHT)
    ] = 1
    priority: Annotated[int, Schema("The highest that is up takes all traffic.", minimum=0)] = 10
    third_party: Annotated[bool, Schema("Whether no cluster of ours runs it.", default=False)] = (
        False
    )
    ready: Annotated[bool, Schema("Whether its cluster says that it can serve.", default=True)] = (
        True
    )
    controller_uuid: Annotated[Name, Schema("The Avi controller that serves the address.")] = (
        wire_field("controllerUUID", "")
    )
    vs_uuid: Annotated[Name, Schema("The virtual service there that has the address.")] = (
        wire_field("vsUUID", "")
    )
    control_plane_only: Annotated[
        bool,
        Schema(
            "Whether its cluster's readiness decides; its monitors do while that is not known.",
            default=False,
        ),
    ] = False
    source: Annotated[str, Schema("The object that brought it.", max_length=600)] = ""
    paths: Annotated[
        tuple[PathReadiness, ...],
        Schema("Every path, if there are several; the first decides.", max_items=50),
    ] = ()
    monitors: Annotated[
        tuple[Monitor, ...], Schema("All must find it up; none: its readiness.", max_items=8)
    ] = ()

    @property
    def advertised_address(self) -> str:
        """The address in DNS answers: `publicIP`, or else `address`."""
        return self.public_ip or self.address


MAX_ALIASES = 50
"""Aliases of a host."""


class GlobalServiceSpec(Value, frozen=True, kw_only=True):
    """Who serves a host, and how one of them is chosen."""

    host: Annotated[str, Schema("The host name.", pattern=SUBDOMAIN, max_length=253)]
    members: Annotated[tuple[GlobalMember, ...], Schema("Who serves it.", max_items=1000)] = ()
    aliases: Annotated[
        tuple[Name, ...], Schema("More names with the same answers.", max_items=MAX_ALIASES)
    ] = ()
    owners: Annotated[
        tuple[Name, ...],
        Schema("The namespaces that may serve it: the first that claimed it.", max_items=100),
    ] = ()
    algorithm: Annotated[Algorithm, Schema("How a member is chosen for a client.")] = (
        "GSLB_ALGORITHM_ROUND_ROBIN"
    )
    hash_mask: Annotated[
        int | None, Schema("Bits of the client's address that count.", minimum=1, maximum=31)
    ] = None
    fallback: Annotated[FallbackAlgorithm, Schema("For clients of unknown location.")] = (
        "GSLB_ALGORITHM_ROUND_ROBIN"
    )
    ttl: Annotated[
        int | None, Schema("Seconds for which an answer may be kept.", minimum=0, maximum=86400)
    ] = None
    when_down: Annotated[WhenDown | None, Schema("The answer while all are down.")] = None
    fallback_ip: Annotated[Address, Schema("The address to answer with then.")] = wire_field(
        "fallbackIP", ""
    )


class PathHealth(Value, frozen=True, kw_only=True):
    """Whether one path of a host is up at a member."""

    path: Annotated[str, Schema("The path.", max_length=1024)] = ""
    up: Annotated[bool, Schema("Whether it is up.", default=False)] = False
    reason: Annotated[str, Schema("Why it is not.", max_length=1024)] = ""


class MemberHealth(Value, frozen=True, kw_only=True):
    """Whether one member is up, by the one who watches it."""

    cluster: Annotated[Name, Schema("The member's cluster.")]
    address: Annotated[Address, Schema("The member's address.")]
    up: Annotated[bool, Schema("Whether it serves.", default=False)] = False
    since: Annotated[datetime | None, Schema("Since when.")] = None
    reason: Annotated[str, Schema("Why it does not.", max_length=1024)] = ""
    was_up: Annotated[bool, Schema("Whether it served before.", default=False)] = False
    paths: Annotated[
        tuple[PathHealth, ...],
        Schema("Every path, if there are several; the first decides.", max_items=50),
    ] = ()


class GlobalServiceStatus(Value, frozen=True, kw_only=True):
    """Who is up."""

    up: Annotated[str, Schema("How many of the members are up.", max_length=32)] = ""
    members: Annotated[tuple[MemberHealth, ...], Schema("Each member.", max_items=1000)] = ()
    refused: Annotated[
        tuple[Annotated[str, Schema(max_length=1024)], ...],
        Schema("Objects of namespaces that do not own the host.", max_items=50),
    ] = ()
    conditions: Conditions = ()


class GlobalService(Object, frozen=True, kw_only=True):
    """One host name over all clusters; written by the leader, copied to its followers."""

    kind: ClassVar[Kind] = Kind("hanse.dev", "v1alpha1", "GlobalService", "globalservices")
    crd: ClassVar[Crd] = Crd(
        short_names=("gs",),
        columns=(
            Column("Host", ".spec.host"),
            Column("Up", ".status.up"),
            Column("Algorithm", ".spec.algorithm", priority=1),
        ),
    )

    allocated: ClassVar[frozenset[str]] = frozenset({"status.conditions"})
    """Told by whoever publishes the host in a cluster, and no part of what the leader copies."""

    spec: GlobalServiceSpec
    status: GlobalServiceStatus = GlobalServiceStatus()
