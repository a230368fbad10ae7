"""Live reads and provider calls that plans asked for; their answers are facts of the next plan."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeAlias

import msgspec

from hanse.kube.clock import Clock
from hanse.kube.errors import KubeError, NotFound
from hanse.model.facts import Answer
from hanse.model.objects import Object, Wire
from hanse.model.plan import Call, Question, Read
from hanse.runtime.informers import ClusterInformers
from hanse.runtime.workqueue import Item

Provider: TypeAlias = Callable[..., Awaitable[Wire]]
"""Answers calls by name; what it raises as `KubeError` or `OSError` becomes the answer's error."""

Start: TypeAlias = Callable[[Coroutine[Any, Any, None], str], None]
"""Runs something beside everything else, under a name, for as long as the engine runs."""

MOST_ANSWERS = 10_000


class Questions:
    """Asks each question once at a time and not while a young enough answer stands."""

    def __init__(
        self,
        informers: ClusterInformers,
        providers: dict[str, Provider],
        clock: Clock,
        answered: Callable[[Item], None],
    ) -> None:
        self._informers = informers
        self._providers = providers
        self._clock = clock
        self._answered = answered
        self._asking: dict[str, set[Item]] = {}
        self._order: dict[str, None] = {}

    def ask(self, item: Item, questions: Iterable[Question], start: Start) -> None:
        """See to it that a key's questions are answered; it wakes when they are."""
        for question in questions:
            known = self._informers.facts.get(Answer, question.ask.id)
            if known is not None and self._clock.now() - known.at < question.max_age:
                continue
            askers = self._asking.get(question.ask.id)
            if askers is not None:
                askers.add(item)
                continue
            self._asking[question.ask.id] = {item}
            start(self.answer(question.ask), f"ask {question.ask.id}")

    async def answer(self, ask: Read | Call) -> None:
        """Ask now, keep the answer as a fact, and wake who waits for it."""
        value: Wire | None = None
        error = ""
        try:
            value = await (self._read(ask) if isinstance(ask, Read) else self._call(ask))
        except (KubeError, OSError, TimeoutError) as failed:
            error = str(failed) or type(failed).__name__
        self._remember(ask.id)
        self._informers.put_fact(Answer(ask.id, value, error, self._clock.now()))
        for item in sorted(self._asking.pop(ask.id, set())):
            self._answered(item)

    async def _read(self, ask: Read) -> Wire | None:
        place = ask.place
        connection = self._informers.connections.get(place.where)
        kind = self._kind_of(ask)
        if connection is None or kind is None:
            raise KubeError(f"{place.where} is not connected")
        try:
            found = await connection.api.read(kind, place.ref.name, place.ref.namespace)
        except NotFound:
            return None
        told: Any = msgspec.to_builtins(found, str_keys=True)
        return dict(told)

    async def _call(self, ask: Call) -> Wire:
        provider = self._providers.get(ask.provider)
        if provider is None:
            raise KubeError(f"no provider {ask.provider} is configured")
        return await provider(**dict(ask.arguments))

    def _kind_of(self, ask: Read) -> type[Object] | None:
        connection = self._informers.connections.get(ask.place.where)
        scopes = connection.informers if connection is not None else ()
        return next((s.kind for s in scopes if s.kind.kind == ask.place.ref.kind), None)

    def _remember(self, question: str) -> None:
        self._order.pop(question, None)
        self._order[question] = None
        if len(self._order) > MOST_ANSWERS:
            oldest = next(iter(self._order))
            del self._order[oldest]
            self._informers.facts.drop(Answer, oldest)
