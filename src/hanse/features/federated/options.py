"""What an installation chooses for federated Services."""

from msgspec import Struct


class FederatedOptions(Struct, frozen=True):
    """How federated Services are named outside, and how they are cut into slices."""

    hostname: str = ""
    """A template of outside names, such as `{name}.{namespace}.example.org`; none: only copied."""
    slice_size: int = 100
    """The most endpoints of one slice; an API server takes up to 1000."""
