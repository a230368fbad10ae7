"""Options of admission webhooks."""

from msgspec import Struct


class AdmissionOptions(Struct, frozen=True):
    """Whether webhooks are enabled, and how the API server reaches the agent."""

    enabled: bool = False
    url: str = ""
    """URL of the agent for the API server; empty: the Service `hanse-webhooks`."""
    namespace: str = "hanse-system"
    """Namespace of the agent, its certificate and that Service."""
    port: int = 9443
    """Port of the agent's pods, the target of the Service."""
