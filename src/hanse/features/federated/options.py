"""Options of federated Services."""

from msgspec import Struct


class FederatedOptions(Struct, frozen=True):
    """External host names of federated Services, and the size of their slices."""

    hostname: str = ""
    """Template, such as `{name}.{namespace}.example.org`; empty: only names of members."""
    slice_size: int = 100
    """Most endpoints of one slice; an API server accepts up to 1000."""
