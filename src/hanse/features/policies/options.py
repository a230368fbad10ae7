"""Options of policy replication."""

from datetime import timedelta

from msgspec import Struct


class PolicyOptions(Struct, frozen=True):
    """How long deletions are remembered, and which disappearances are held back."""

    retention: timedelta = timedelta(minutes=10)
    """The minimum age of a tombstone before collection: tools that undo deletions are noticed."""
    remembered: int = 500
    """The number of collected tombstones whose versions a ledger page keeps."""
    flips: int = 3
    """How often a version may be restored against another cluster's before it is quarantined."""
    vanished: int = 20
    """The number of policies that may disappear from a member at once without confirmation..."""
    share: float = 0.3
    """...and their share of all policies that were applied there; the larger bound counts."""
