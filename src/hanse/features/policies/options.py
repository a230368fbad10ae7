"""What an installation chooses about replicated policies."""

from datetime import timedelta

from msgspec import Struct


class PolicyOptions(Struct, frozen=True):
    """How long is remembered, and how much is suspicious."""

    retention: timedelta = timedelta(minutes=10)
    """How long a tombstone stays at least, so that tools which undo deletions are noticed."""
    remembered: int = 500
    """Collected tombstones that a member's ledger still knows by their versions."""
    flips: int = 3
    """How often one version may be brought back against another before a person is asked."""
    vanished: int = 20
    """How many policies may vanish from a member at once without a person's word..."""
    share: float = 0.3
    """...and which part of all that stood there."""
