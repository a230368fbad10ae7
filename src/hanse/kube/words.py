"""Words that many objects have in common, kept once in this process."""

from sys import intern

from msgspec.structs import force_setattr

from hanse.model.objects import Meta

LONGEST = 256
"""Characters of what objects may well have in common: a name, a label, a record of ours."""


def intern_metadata(meta: Meta) -> None:
    """Let some metadata have its names, labels and annotations in common with all other.

    A third of what a store holds would be these same words, again and again.
    """
    force_setattr(meta, "name", intern(meta.name))
    force_setattr(meta, "namespace", intern(meta.namespace))
    if meta.labels:
        force_setattr(meta, "labels", {intern(k): intern(v) for k, v in meta.labels.items()})
    if meta.annotations:
        notes = {intern(k): _word(v) for k, v in meta.annotations.items()}
        force_setattr(meta, "annotations", notes)


def _word(text: str) -> str:
    return intern(text) if len(text) <= LONGEST else text
