"""Laws: what users rely on, each with its sentence; the general ones stand here."""

import logging
from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from hanse.kube.decoding import decode_object
from hanse.model.objects import ClusterId, Wire
from tests.support.simulator.fleet import Fleet
from tests.support.simulator.users import Place, content_of


class Sentence(Struct, frozen=True):
    """The name of a law, and the sentence that it protects."""

    name: str
    sentence: str


class LawBroken(AssertionError):
    """A law does not hold: its name, its sentence, and what was seen."""

    def __init__(self, law: Sentence, seen: str) -> None:
        super().__init__(f"{law.name}: {law.sentence}\n  {seen}")
        self.law = law.name


class Law:
    """A law over one fleet, which it observes; subclasses say what contradicts it."""

    name = ""
    sentence = ""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def basis(self) -> object:
        """What a verdict of `observe` rests on: while it is the same, it is not asked for again.

        None if it may change with time alone.
        """
        return None

    async def observe(self) -> AsyncIterator[str]:
        """What contradicts the law at this moment; called about once a second."""
        for nothing in tuple[str]():
            yield nothing

    async def at_rest(self) -> AsyncIterator[str]:
        """What contradicts the law after everything has healed."""
        for nothing in tuple[str]():
            yield nothing


def sentence_of(law: Law) -> Sentence:
    """The sentence of a law."""
    return Sentence(law.name, law.sentence)


class UserObjectsKept(Law):
    """Users' objects stay as users left them."""

    name = "users-objects-kept"
    sentence = "What a person made is never changed, replaced or lost by us."

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._unchanged: dict[Place, tuple[str, Wire]] = {}
        """The version of an object that was compared last, and with what."""
        self._judged: dict[ClusterId, object] = {}
        """The state of a cluster, and of what users have, that was judged last."""

    async def observe(self) -> AsyncIterator[str]:
        for cluster in self.fleet.everywhere:
            state = (self.fleet.state_of(cluster), self.fleet.users.version)
            if self._judged.get(cluster) == state:
                continue
            self._judged[cluster] = state
            for place, (uid, content) in self.fleet.users.saved(cluster).items():
                if seen := await self._seen(place, uid, content):
                    yield seen

    async def _seen(self, place: Place, uid: str, content: Wire) -> str:
        """What contradicts the law about one object."""
        cluster, kind, space, name = place
        subject = f"the {kind.__name__} {space}/{name} of {cluster}"
        found = await self.fleet.get(*place)
        if found is None:
            return f"{subject} is gone"
        version = found["metadata"]["resourceVersion"]
        if found["metadata"]["uid"] != uid:
            return f"{subject} was replaced"
        if self._unchanged.get(place) == (version, content):
            return ""
        if (now := content_of(decode_object(msgspec.json.encode(found), kind))) != content:
            return f"{subject} is {now}, not {content}"
        self._unchanged[place] = (version, content)
        return ""


class AgentsRun(Law):
    """Agents do not end by themselves."""

    name = "agents-run"
    sentence = "No fault of a cluster or a link ends an agent."

    async def observe(self) -> AsyncIterator[str]:
        for name, running in self.fleet.agents.items():
            if running.task.done():
                yield f"the agent {name} ended: {running.task}"


class _Errors(logging.Handler):
    """Keeps what agents log of keys that could not be planned or compiled."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg in KEY_ERRORS:
            error = record.exc_info[1] if record.exc_info is not None else None
            self.found.append(f"{record.msg}: {error!r}")


KEY_ERRORS = (
    "plan failed",
    "keys_for failed",
    "connection source failed",
    "names not compiled",
    "probes not found",
)
_ERRORS = _Errors()


class KeysPlanned(Law):
    """Every key can be planned, and its names compiled."""

    name = "keys-planned"
    sentence = "No object, whoever wrote it, makes a plan or the names of a service fail."

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        _ERRORS.found.clear()
        logging.getLogger("hanse").addHandler(_ERRORS)

    async def observe(self) -> AsyncIterator[str]:
        for error in _ERRORS.found:
            yield error


GENERAL = (UserObjectsKept, AgentsRun, KeysPlanned)
