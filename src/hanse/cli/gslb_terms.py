"""Which of several leaders is to give way."""

from collections.abc import Mapping


def first_to_demote(leaders: Mapping[str, int]) -> str:
    """The leader of the earliest term, by name and epoch: what serves was written in the latest."""
    earliest = min(leaders.values())
    return [name for name, epoch in leaders.items() if epoch == earliest][-1]
