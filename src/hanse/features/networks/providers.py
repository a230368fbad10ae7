"""Who makes a network: what a provider wants for it, and how far that has come."""

from typing import Literal, Protocol

from msgspec import Struct

from hanse.features.networks.interfaces import candidate_subnets, parse_interface
from hanse.model.conditions import find_condition
from hanse.model.kinds.networks import Network
from hanse.model.objects import Object
from hanse.model.snapshot import Snapshot, Watch

PROVISIONED = "Provisioned"
"""The condition by which a provider outside of Hanse says how far it has come."""

State = Literal["Ready", "Pending", "Failed", "Unknown"]


class ProvisionResult(Struct, frozen=True):
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
        """Raises `InvalidInterface` where a pod asks for an interface that it cannot have."""
        ...

    def provision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:
        """The network, as it should be."""
        ...

    def deprovision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:
        """What is left of the network at its end."""
        ...


class FlatProvider:
    """The cluster's own network: there is nothing to provide."""

    name = "flat"
    watches: tuple[Watch, ...] = ()
    has_ports = False

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:
        """Nothing: what pods say about their interface is ignored here."""

    def provision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:  # noqa: ARG002 - the contract
        return ProvisionResult()

    def deprovision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:  # noqa: ARG002 - the contract
        return ProvisionResult()


class ExternalProvider:
    """A provider that is no part of Hanse: it says on the network itself how far it has come."""

    watches: tuple[Watch, ...] = ()
    has_ports = True

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:  # noqa: ARG002 - the contract
        if network.spec.subnets:
            candidate_subnets(network, parse_interface(annotations))
        else:
            parse_interface(annotations)

    def provision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:  # noqa: ARG002 - the contract
        told = find_condition(network.status.conditions, PROVISIONED)
        if told is None:
            return ProvisionResult(
                "Pending",
                f"waiting for provider {self.name} to set condition {PROVISIONED}",
            )
        match told.status:
            case "True":
                return ProvisionResult()
            case "False":
                return ProvisionResult("Failed", told.message or told.reason)
            case _:
                return ProvisionResult("Unknown", told.message or f"{self.name} does not answer")

    def deprovision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:  # noqa: ARG002 - the contract
        own = f"{self.name}.{network.metadata.name}"
        left = [f for f in network.metadata.finalizers if f.endswith(f"/{self.name}")]
        return ProvisionResult("Pending", f"{own} is being removed", gone=not left)
