"""What a person can ask of a running federation, and what it answers, as values."""

from typing import Any

import msgspec
from msgspec import Struct


class Order(Struct, frozen=True, tag_field="order", tag=str.lower):
    """Something to be done."""


class Cut(Order, frozen=True):
    """Let nothing through between the agents and API servers of two clusters."""

    one: str
    other: str


class Heal(Order, frozen=True):
    """Undo a cut."""

    one: str
    other: str


class HealAll(Order, frozen=True):
    """Undo every cut, every slowness, and start what was killed."""


class Kill(Order, frozen=True):
    """Stop a cluster's API server."""

    cluster: str


class Start(Order, frozen=True):
    """Bring a killed API server back."""

    cluster: str


class Slow(Order, frozen=True):
    """Let a cluster answer late."""

    cluster: str
    milliseconds: int


class List(Order, frozen=True):
    """Only tell how things are."""


class Enter(Order, frozen=True):
    """Tell a link that lets a browser into the dashboard, once."""


AnyOrder = Cut | Heal | HealAll | Kill | Start | Slow | List | Enter


class ClusterTold(Struct, frozen=True):
    """One cluster as it is now."""

    name: str
    standing: str
    url: str
    running: bool
    delay_milliseconds: int
    services: str
    pods: str
    nodes: str
    load_balancers: str
    agent: bool
    dns: str = ""
    """Where its clients' names are answered, as ADDRESS:PORT."""
    network_dns: dict[str, str] = {}
    """Where those of its tenant networks are, by network."""
    sees: dict[str, str] = {}
    """What its agent knows of each cluster: Synced, or what else and why."""


class Told(Struct, frozen=True):
    """The federation as it is now: the answer to any order that could be carried out."""

    pid: int
    engine: str
    clusters: tuple[ClusterTold, ...]
    cuts: tuple[tuple[str, str], ...]
    dns: str = ""
    """Where names are answered to those who ask from no cluster."""
    dashboard: str = ""
    """The dashboard's address; after `Enter` a link that lets a browser in, once."""


class Refused(Struct, frozen=True):
    """The answer to an order that could not."""

    refused: str


_orders: "msgspec.json.Decoder[AnyOrder]" = msgspec.json.Decoder(AnyOrder)


def order_in(line: bytes) -> AnyOrder:
    """Raises `msgspec.DecodeError` for anything else."""
    return _orders.decode(line)


def answer_in(line: bytes) -> Told | Refused:
    """The answer that was sent; raises `msgspec.DecodeError` for anything else."""
    answer: dict[str, Any] = msgspec.json.decode(line)
    if "refused" in answer:
        return msgspec.convert(answer, Refused)
    return msgspec.convert(answer, Told)
