"""What stands on objects for our own sake: whose they are, and what people say about that."""

OURS = "hanse.dev/"
"""The prefix of our bookkeeping: never replicated from one object to another."""

OWNER = "hanse.dev/owner"
"""Label of everything that the engine owns."""
OWNER_KEY = "hanse.dev/owner-key"
SOURCES = "hanse.dev/sources"
APPLIED = "hanse.dev/applied"
EPOCH = "hanse.dev/epoch"

PAUSED = "hanse.dev/paused"
"""Annotation of an object, or of the system namespace: nothing is written."""
ALLOW_MASS_DELETION = "hanse.dev/allow-mass-deletion"
"""Annotation on the system namespace: features (comma-joined, or `*`) whose holds are lifted."""
