"""Networks with ipam External: what their provider is asked, and what it is told.

Each is a `Call` of the provider `network-TYPE`, with an `action`: describe (ranges and the address
of its DNS), allocate (an address of a Service), confirm (a Service that has one, with its
backends), list (what it holds) and release. All can be sent again.
"""

from collections.abc import Iterator
from datetime import timedelta
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from hanse.features.networks.addresses import parse_address
from hanse.features.networks.backends import port_backends
from hanse.features.networks.lookups import SERVICES_BY_NETWORK, SLICES_BY_SERVICE, ipam_mode
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.ranges import parse_range
from hanse.model.facts import Answer
from hanse.model.kinds.core import Service
from hanse.model.kinds.networks import Network
from hanse.model.plan import Call, Plan, Question
from hanse.model.snapshot import Snapshot

LIST_INTERVAL = timedelta(minutes=1)
"""How often it is checked what a provider holds."""
RETRY_INTERVAL = timedelta(seconds=5)
CONFIRM_AGE = timedelta(minutes=10)
"""How often a provider is told of a Service that has not changed."""


class HeldAddress(Struct, frozen=True):
    """An address that a provider holds for a Service."""

    address: str
    namespace: str
    service: str
    uid: str


class Description(Struct, frozen=True):
    """What a provider says of a network; empty while it has not answered."""

    ranges: tuple[str, ...] = ()
    dns_service_ip: str = ""
    error: str = ""


def has_provider(network: Network, options: NetworksOptions) -> bool:
    """Whether a network has ipam External, and the options name a provider's URL for its type."""
    types = {type_ for type_, _ in options.providers}
    return ipam_mode(network) == "External" and network.spec.type in types


def provider_call(network: Network, action: str, **arguments: Any) -> Call:
    """The request of an action to the provider of a network's type, with these arguments.

    It is a value to ask with; it is not sent here.
    """
    fixed: dict[str, Any] = {"action": action, "network": network.metadata.name}
    return Call(f"network-{network.spec.type}", tuple({**fixed, **arguments}.items()))


def describe(network: Network, snapshot: Snapshot) -> tuple[Description, Question]:
    """The ranges and DNS address that the provider last gave for a network, and its question.

    Without an answer they are empty, with the error if there was one; invalid values are left out.
    """
    call = provider_call(network, "describe", vpcID=network.spec.vpc_id)
    answer = snapshot.fact(Answer, call.id)
    question = Question(call, RETRY_INTERVAL)
    if answer is None or answer.value is None:
        return Description(error=answer.error if answer is not None else ""), question
    found = answer.value
    ranges = tuple(str(text) for text in found.get("ranges") or () if parse_range(str(text)))
    address = parse_address(str(found.get("dnsServiceIP") or ""))
    return Description(ranges, str(address or "")), question


def alias_address(
    network: Network, service: str, namespace: str, snapshot: Snapshot
) -> tuple[str, Question]:
    """The address that the provider gave for one of the network's own Services, and the question.

    The question asks it to allocate one, which is the same each time. The address is empty without
    a valid answer.
    """
    call = provider_call(
        network,
        "allocate",
        namespace=namespace,
        service=service,
        address="",
        dry_run=False,
        request=f"{network.metadata.uid}/{service}",
    )
    answer = snapshot.fact(Answer, call.id)
    given = (answer.value or {}) if answer is not None else {}
    address = parse_address(str(given.get("address") or ""))
    return str(address or ""), Question(call, RETRY_INTERVAL if address is None else CONFIRM_AGE)


def plan_backends(
    service: Service | None, network: Network | None, snapshot: Snapshot, options: NetworksOptions
) -> Plan:
    """Ask the provider to confirm a Service with its address and backends, whenever these change.

    Again after 10 minutes, or 5 seconds if it failed. An empty plan if there is no such Service,
    network, provider or cluster IP.
    """
    if service is None or network is None or not has_provider(network, options):
        return Plan()
    if parse_address(service.spec.cluster_ip) is None:
        return Plan()
    meta = service.metadata
    call = provider_call(
        network,
        "confirm",
        namespace=meta.namespace,
        service=meta.name,
        uid=meta.uid,
        address=service.spec.cluster_ip,
        ports=msgspec.to_builtins(port_backends(service, snapshot)),
        revision=_revision(service, snapshot),
    )
    answer = snapshot.fact(Answer, call.id)
    failed = answer is not None and bool(answer.error)
    return Plan(
        questions=(Question(call, RETRY_INTERVAL if failed else CONFIRM_AGE),),
        requeue_after=RETRY_INTERVAL if failed else CONFIRM_AGE,
    )


def _revision(service: Service, snapshot: Snapshot) -> str:
    """A hash of the resource versions of a Service and its EndpointSlices.

    Any write of these changes it.
    """
    key = f"{service.metadata.namespace}/{service.metadata.name}"
    slices = snapshot.by(snapshot.local, SLICES_BY_SERVICE, key)
    versions = sorted(s.metadata.uid + s.metadata.resource_version for s in slices)
    text = " ".join((service.metadata.resource_version, *versions))
    return blake2b(text.encode(), digest_size=8).hexdigest()


def plan_releases(name: str, snapshot: Snapshot, options: NetworksOptions) -> Plan:
    """Ask what the provider holds, and to release addresses of Services that are gone.

    Again after 5 seconds while there is something to release, else after a minute. An empty plan if
    the network is gone or has no provider.
    """
    network = snapshot.get(snapshot.local, Network, name)
    if network is None or not has_provider(network, options):
        return Plan()
    questions = (Question(_list_call(network), RETRY_INTERVAL), *releases(network, snapshot))
    again = RETRY_INTERVAL if len(questions) > 1 else LIST_INTERVAL
    return Plan(questions=questions, requeue_after=again)


def releases(network: Network, snapshot: Snapshot) -> Iterator[Question]:
    """A question to release each address that the provider holds and no Service here has.

    A Service has it by its uid and cluster IP. None while it is not known what the provider holds.
    """
    alive = {
        (s.metadata.uid, s.spec.cluster_ip)
        for s in snapshot.by(snapshot.local, SERVICES_BY_NETWORK, network.metadata.name)
    }
    for held in held_addresses(network, snapshot) or ():
        if (held.uid, held.address) not in alive:
            call = provider_call(network, "release", **msgspec.to_builtins(held))
            yield Question(call, RETRY_INTERVAL)


def held_addresses(network: Network, snapshot: Snapshot) -> tuple[HeldAddress, ...] | None:
    """What the provider last said that it holds for the network; None without a valid answer."""
    answer = snapshot.fact(Answer, _list_call(network).id)
    if answer is None or answer.value is None:
        return None
    try:
        return msgspec.convert(answer.value.get("addresses"), tuple[HeldAddress, ...], strict=False)
    except msgspec.ValidationError:
        return None


def _list_call(network: Network) -> Call:
    """The request for all addresses that the provider holds for a network."""
    return provider_call(network, "list")


def plan_return(
    network: Network, snapshot: Snapshot, options: NetworksOptions
) -> tuple[str, tuple[Question, ...]]:
    """The message that a terminating network waits for its provider, and what to ask it.

    Both are empty without a provider, or once it says that it holds no address.
    """
    if not has_provider(network, options):
        return "", ()
    held = held_addresses(network, snapshot)
    if held == ():
        return "", ()
    questions = (Question(_list_call(network), timedelta(seconds=1)), *releases(network, snapshot))
    return f"waiting for provider {network.spec.type} to take its addresses back", questions
