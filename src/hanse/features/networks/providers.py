"""Providers of networks: the contract, the flat network, and external providers."""

from typing import Literal, Protocol

from msgspec import Struct

from hanse.features.networks.interfaces import candidate_subnets, parse_interface
from hanse.model.conditions import find_condition
from hanse.model.kinds.networks import Network
from hanse.model.objects import Object
from hanse.model.snapshot import Snapshot, Watch

PROVISIONED = "Provisioned"
"""The condition by which an external provider reports its progress."""

State = Literal["Ready", "Pending", "Failed", "Unknown"]


class ProvisionResult(Struct, frozen=True):
    """The objects that a provider needs for a network, and its progress."""

    state: State = "Ready"
    message: str = ""
    objects: tuple[Object, ...] = ()
    gone: bool = True
    """Whether nothing of the network is left at the provider."""


class Provider(Protocol):
    """A type of network, as pure functions: what the provider needs is written as objects."""

    @property
    def name(self) -> str:
        """The type of networks that it provides, as in spec.type."""
        ...

    @property
    def watches(self) -> tuple[Watch, ...]:
        """What it reads and writes beside what the feature watches anyway."""
        ...

    @property
    def has_ports(self) -> bool:
        """Whether pods wait for a port before they are scheduled."""
        ...

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:
        """Raise `InvalidInterface` if a pod requests an interface that it cannot have."""
        ...

    def provision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:
        """The desired objects of a network, and whether it is ready; nothing is written here."""
        ...

    def deprovision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:
        """What is still desired of a network that ends, and whether nothing is left of it."""
        ...


class FlatProvider:
    """The cluster's own network: there is nothing to provision."""

    name = "flat"
    watches: tuple[Watch, ...] = ()
    has_ports = False

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:
        """Accept all: interface annotations are ignored."""

    def provision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:  # noqa: ARG002 - the contract
        """Ready at once, without objects."""
        return ProvisionResult()

    def deprovision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:  # noqa: ARG002 - the contract
        """Gone at once: there is nothing to remove."""
        return ProvisionResult()


class ExternalProvider:
    """A provider outside of Hanse, which reports by a condition of the Network."""

    watches: tuple[Watch, ...] = ()
    has_ports = True

    def __init__(self, name: str) -> None:
        """The provider of networks whose spec.type is `name`."""
        self.name = name

    def check(self, network: Network, annotations: dict[str, str], snapshot: Snapshot) -> None:  # noqa: ARG002 - the contract
        """Raise `InvalidInterface` if the interface annotation is invalid or fits no subnet.

        In a network without subnets only its syntax is checked.
        """
        if network.spec.subnets:
            candidate_subnets(network, parse_interface(annotations))
        else:
            parse_interface(annotations)

    def provision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:  # noqa: ARG002 - the contract
        """The state that the provider reports in condition `PROVISIONED`; Pending without it.

        True is Ready, False is Failed, any other status is Unknown; it makes no objects.
        """
        reported = find_condition(network.status.conditions, PROVISIONED)
        if reported is None:
            return ProvisionResult(
                "Pending",
                f"waiting for provider {self.name} to set condition {PROVISIONED}",
            )
        match reported.status:
            case "True":
                return ProvisionResult()
            case "False":
                return ProvisionResult("Failed", reported.message or reported.reason)
            case _:
                return ProvisionResult(
                    "Unknown", reported.message or f"{self.name} does not answer"
                )

    def deprovision(self, network: Network, snapshot: Snapshot) -> ProvisionResult:  # noqa: ARG002 - the contract
        """Pending; `gone` once the Network has no finalizer that ends in `/NAME`.

        NAME is the provider's, who removes the finalizer.
        """
        own = f"{self.name}.{network.metadata.name}"
        remaining = [f for f in network.metadata.finalizers if f.endswith(f"/{self.name}")]
        return ProvisionResult("Pending", f"{own} is being removed", gone=not remaining)
