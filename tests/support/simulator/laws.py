"""Laws: what users rely on, each with its sentence; the general ones stand here."""

from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from hanse.kube.decoding import decode_object
from hanse.model.objects import Wire
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

    async def observe(self) -> AsyncIterator[str]:
        for place, (uid, content) in self.fleet.users:
            found = await self.fleet.get(*place)
            cluster, kind, space, name = place
            subject = f"the {kind.__name__} {space}/{name} of {cluster}"
            if found is None:
                yield f"{subject} is gone"
                continue
            version = found["metadata"]["resourceVersion"]
            if found["metadata"]["uid"] != uid:
                yield f"{subject} was replaced"
            elif self._unchanged.get(place) == (version, content):
                continue
            elif (now := content_of(decode_object(msgspec.json.encode(found), kind))) != content:
                yield f"{subject} is {now}, not {content}"
            else:
                self._unchanged[place] = (version, content)


class AgentsRun(Law):
    """Agents do not end by themselves."""

    name = "agents-run"
    sentence = "No fault of a cluster or a link ends an agent."

    async def observe(self) -> AsyncIterator[str]:
        for name, running in self.fleet.agents.items():
            if running.task.done():
                yield f"the agent {name} ended: {running.task}"


GENERAL = (UserObjectsKept, AgentsRun)
