"""Answers the questions of plans by live reads and provider calls; answers become facts."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from hanse.kube.clock import Clock
from hanse.kube.errors import KubeError, NotFound
from hanse.model.facts import Answer, is_recent
from hanse.model.objects import Object, Wire
from hanse.model.plan import Call, Question, Read
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.workqueue import Item

Provider: TypeAlias = Callable[..., Awaitable[Wire]]
"""Answers calls; a `KubeError` or `OSError` that it raises becomes the answer's error."""

StartTask: TypeAlias = Callable[[Coroutine[Any, Any, None], str], None]
"""Starts a named background task, which ends with the reconciler at the latest."""

MAX_ANSWERS = 10_000
RETRY_INTERVAL = timedelta(seconds=5)
"""After which a question whose answer was an error is asked again."""


class Questions:
    """Answers each question once at a time, and not while its last answer is recent enough."""

    def __init__(
        self,
        informers: ClusterInformers,
        providers: dict[str, Provider],
        clock: Clock,
        enqueue: Callable[[Item], None],
        enqueue_after: Callable[[Item, timedelta], None],
    ) -> None:
        """Nothing is asked yet; `providers` answer calls, by name.

        `enqueue` gets each key whose question was answered, `enqueue_after` each whose question got
        an error, with the time after which it is asked again.
        """
        self._enqueue_after = enqueue_after
        self._informers = informers
        self._providers = providers
        self._clock = clock
        self._enqueue = enqueue
        self._in_flight: dict[str, set[Item]] = {}
        self._by_age: dict[str, None] = {}

    def ask(self, item: Item, questions: Iterable[Question], start: StartTask) -> None:
        """Start to answer those questions of a key that have no answer within their `max_age`.

        An error is an answer for RETRY_INTERVAL at most, after which the key is enqueued. A
        question that is being answered already is not asked twice; every key that asked is enqueued
        when the answer is there.
        """
        for question in questions:
            known = self._informers.facts.get(Answer, question.ask.id)
            failed = known is not None and bool(known.error)
            max_age = min(question.max_age, RETRY_INTERVAL) if failed else question.max_age
            if known is not None and is_recent(known.at, self._clock.now(), max_age):
                if failed:
                    self._enqueue_after(item, max_age)
                continue
            askers = self._in_flight.get(question.ask.id)
            if askers is not None:
                askers.add(item)
                continue
            self._in_flight[question.ask.id] = {item}
            start(self.answer(question.ask), f"ask {question.ask.id}")

    async def answer(self, query: Read | Call) -> None:
        """Answer now, store the answer or its error as a fact, and enqueue the keys that asked.

        Errors other than KubeError and OSError are raised. Drops the oldest answer beyond
        MAX_ANSWERS.
        """
        value: Wire | None = None
        error = ""
        try:
            value = await (
                self._answer_read(query) if isinstance(query, Read) else self._answer_call(query)
            )
        except (KubeError, OSError, TimeoutError) as failed:
            error = str(failed) or type(failed).__name__
        self._limit_answers(query.id)
        self._informers.put_fact(Answer(query.id, value, error, self._clock.now()))
        for item in sorted(self._in_flight.pop(query.id, set())):
            self._enqueue(item)

    async def _answer_read(self, query: Read) -> Wire | None:
        """Read an object live, as wire data; None if absent.

        Raises KubeError if the read fails, the cluster is not connected, or the kind is watched
        nowhere.
        """
        place = query.target
        connection = self._informers.connections.get(place.where)
        kind = self._kind_of(query)
        if connection is None or kind is None:
            raise KubeError(f"{place.where} is not connected")
        try:
            found = await connection.api.read(kind, place.ref.name, place.ref.namespace)
        except NotFound:
            return None
        wire: Any = msgspec.to_builtins(found, str_keys=True)
        return dict(wire)

    async def _answer_call(self, query: Call) -> Wire:
        """Call the provider with the query's arguments, and return its answer.

        Raises KubeError if none is configured by that name; what the provider raises is passed on.
        """
        provider = self._providers.get(query.provider)
        if provider is None:
            raise KubeError(f"no provider {query.provider} is configured")
        return await provider(**dict(query.arguments))

    def _kind_of(self, query: Read) -> type[Object] | None:
        """The kind that a read names; None if no informer of any cluster watches it."""
        connections = self._informers.connections.values()
        scopes = (scope for connection in connections for scope in connection.informers)
        return next((s.kind for s in scopes if s.kind.kind == query.target.ref.kind), None)

    def _limit_answers(self, question: str) -> None:
        """Note a question as the newest, and drop the oldest answer beyond MAX_ANSWERS."""
        self._by_age.pop(question, None)
        self._by_age[question] = None
        if len(self._by_age) > MAX_ANSWERS:
            oldest = next(iter(self._by_age))
            del self._by_age[oldest]
            self._informers.facts.drop(Answer, oldest)
