"""What an installation chooses about its webhooks."""

from msgspec import Struct


class AdmissionOptions(Struct, frozen=True):
    """Whether API servers ask, and where they find the agent."""

    enabled: bool = False
    url: str = ""
    """Where the API server reaches the agent; empty: by the Service `hanse-webhooks`."""
    namespace: str = "hanse-system"
    """Where the agent, its certificate and that Service are."""
    port: int = 9443
    """Where the agent's pods listen, for the Service."""
