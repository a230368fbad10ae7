"""Who makes a network: what a provider wants for it, and how far that has come."""

from typing import Literal, Protocol

from msgspec import Struct

from hanse.features.networks.nic import nic_of, subnets_of
from hanse.model.conditions import find
from hanse.model.kinds.networks import Network
from hanse.model.objects import Object
from hanse.model.snapshot import Snapshot, Watch

PROVISIONED = "Provisioned"
"""The condition by which a provider outside of Hanse says how far it has come."""

State = Literal["Ready", "Pending", "Failed", "Unknown"]


class Provision(Struct, frozen=True):
    """What a provider wants to exist for a network, and how far it has come."""

    state: State = "Ready"
    message: str = ""
    objects: tuple[Object, ...] = ()
    gone: bool = True
    """Whether nothing of an earlier network is left at the provider."""


class Provider(Protocol):
    """A kind of network. Everything is pure: calls are objects that the engine writes."""

    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> tuple[Watch, ...]: ...

    @property
    def has_ports(self) -> bool:
        """Whether pods wait for a port of their own before they are scheduled."""
        ...

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:
        """Raises `BadNic` where a pod asks for an interface that it cannot have."""
        ...

    def up(self, network: Network, snapshot: Snapshot) -> Provision:
        """The network, as it should be."""
        ...

    def down(self, network: Network, snapshot: Snapshot) -> Provision:
        """What is left of the network at its end."""
        ...


class Flat:
    """The cluster's own network: there is nothing to provide."""

    name = "flat"
    watches: tuple[Watch, ...] = ()
    has_ports = False

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:
        """Nothing: what pods say about their interface is ignored here."""

    def up(self, network: Network, snapshot: Snapshot) -> Provision:  # noqa: ARG002 - the contract
        return Provision()

    def down(self, network: Network, snapshot: Snapshot) -> Provision:  # noqa: ARG002 - the contract
        return Provision()


class Elsewhere:
    """A provider that is no part of Hanse: it says on the network itself how far it has come."""

    watches: tuple[Watch, ...] = ()
    has_ports = True

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:  # noqa: ARG002 - the contract
        if network.spec.subnets:
            subnets_of(network, nic_of(annotations))
        else:
            nic_of(annotations)

    def up(self, network: Network, snapshot: Snapshot) -> Provision:  # noqa: ARG002 - the contract
        told = find(network.status.conditions, PROVISIONED)
        if told is None:
            return Provision(
                "Pending",
                f"waiting for provider {self.name} to set condition {PROVISIONED}",
            )
        match told.status:
            case "True":
                return Provision()
            case "False":
                return Provision("Failed", told.message or told.reason)
            case _:
                return Provision("Unknown", told.message or f"{self.name} does not answer")

    def down(self, network: Network, snapshot: Snapshot) -> Provision:  # noqa: ARG002 - the contract
        own = f"{self.name}.{network.metadata.name}"
        left = [f for f in network.metadata.finalizers if f.endswith(f"/{self.name}")]
        return Provision("Pending", f"{own} is being removed", gone=not left)
