"""Which candidates should hold a Lease, so that leaders spread over supervisors."""

from datetime import timedelta
from typing import Protocol


class HolderPreference(Protocol):
    """Which of several candidates should hold a lease."""

    def acquire_delay(self) -> timedelta:
        """How long to leave a free lease to preferred candidates, at most the retry period."""
        ...

    def prefers(self, candidate: str) -> bool:
        """Whether another candidate, by its identity, is preferred to this one."""
        ...

    def may_request(self) -> bool:
        """Whether this candidate may request the lease now; each yes allows one request."""
        ...


class NoPreference:
    """No candidate is preferred: the holder keeps the lease."""

    def acquire_delay(self) -> timedelta:
        """Zero: a free lease is acquired at once."""
        return timedelta(0)

    def prefers(self, candidate: str) -> bool:  # noqa: ARG002 - an `HolderPreference`
        """False: no other candidate is preferred."""
        return False

    def may_request(self) -> bool:
        """False: a lease that another holds is never requested."""
        return False
