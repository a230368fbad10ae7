"""The objects of one list, to be read: who looks once needs no store that follows changes."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Generic

from hanse.kube.watch_events import Listed
from hanse.model.objects import K
from hanse.model.snapshot import Index


class ListedObjects(Generic[K]):
    """A list of one kind, found by name, namespace and index.

    What is not asked for is not computed: a fleet has very many objects.
    """

    def __init__(
        self, listed: Listed[K], indexes: Sequence[Index[K]] = (), *, complete: bool = True
    ) -> None:
        """Wrap a list; `complete` unless objects may exist that it does not have.

        `indexes` are those that `by` knows; each is computed when it is first asked for.
        """
        self.synced = complete
        """Whether what is not in it does not exist."""
        self.version = 0
        """Not known: versions of what is read once are compared with nothing."""
        self._objects = listed.objects
        self._unreadable = listed.unreadable
        self._indexes = {index.name: index for index in indexes}
        self._by_index: dict[str, dict[str, list[K]]] = {}

    def get(self, namespace: str, name: str) -> K | None:
        """The object of that name; None if the list has none, or it cannot be decoded."""
        return self._by_name.get((namespace, name))

    def all(self) -> Sequence[K]:
        """The objects that could be decoded, in the order of the list."""
        return self._objects

    def in_namespace(self, namespace: str) -> Iterator[K]:
        """The objects with exactly this namespace; with an empty one those that are in none."""
        return (one for one in self._objects if one.metadata.namespace == namespace)

    def by(self, index: str, value: str) -> Sequence[K]:
        """The objects under a value of an index; none if there is no such index."""
        if index not in self._by_index:
            self._by_index[index] = self._group(self._indexes.get(index))
        return self._by_index[index].get(value, ())

    def unreadable_reason(self, namespace: str, name: str) -> str:
        """Why an object cannot be decoded as its kind; empty where it can, or is not listed."""
        found = (u.reason for u in self._unreadable if (u.namespace, u.name) == (namespace, name))
        return next(found, "")

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], K]:
        """The objects by namespace and name, computed at the first access."""
        return {(one.metadata.namespace, one.metadata.name): one for one in self._objects}

    def _group(self, index: Index[K] | None) -> dict[str, list[K]]:
        """The objects, in the order of the list, by their values in an index; empty for None."""
        found: dict[str, list[K]] = {}
        for one in self._objects if index is not None else ():
            for value in index.values(one) if index is not None else ():
                found.setdefault(value, []).append(one)
        return found
