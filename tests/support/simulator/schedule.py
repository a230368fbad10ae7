"""Steps and schedules: plain values that are drawn from a registry, printed and read back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from msgspec import Struct

CLUSTERS = ("lubeck", "hamburg", "bergen")
BROKER = "broker"
EVERYWHERE = (*CLUSTERS, BROKER)
PAUSES = (0, 0, 0.01, 0.1, 1, 5, 5, 20, 40)
"""Seconds after a step; the lease time of clusters is between the last two."""
PUNCTUAL = 4
"""Of so many schedules one has no lags of watches."""
LENGTHS = (3, 6, 9, 12, 16)

Argument = str | int | float | bool

KNOWN: frozenset[tuple[Argument, ...]] = frozenset()
"""Steps, by name and maybe first argument, that a search leaves out, since it would find nothing
else."""


class Step(Struct, frozen=True):
    """One action of a user, or one fault, by its name in the registry."""

    name: str
    args: tuple[Argument, ...] = ()
    pause: float = 0

    @property
    def is_known(self) -> bool:
        """Whether a law is known not to survive it."""
        return bool({(self.name,), (self.name, *self.args[:1])} & KNOWN)

    def __str__(self) -> str:
        words = ", ".join(map(repr, (self.name, *self.args)))
        return f"do({words}, pause={self.pause:g})" if self.pause else f"do({words})"


def do(name: str, *args: Argument, pause: float = 0) -> Step:
    """A step as it is written in a test."""
    return Step(name, args, pause)


class StepKind(Struct, frozen=True):
    """A kind of step: how often it is drawn, and the domains of its arguments."""

    name: str
    weight: int
    opening: bool
    """Whether a schedule begins with some: they make what the others act on."""
    domains: tuple[tuple[Argument, ...], ...]
    searched: bool = False
    """Whether only searches draw it: what a seed draws elsewhere stays as it was."""

    def draw(self, random: Random) -> Step:
        """A step of this kind with random arguments and a random pause."""
        args = tuple(random.choice(domain) for domain in self.domains)
        return Step(self.name, args, random.choice(PAUSES))


_KIND = "__step__"


def step(
    weight: int, *, opening: bool = False, searched: bool = False, **domains: Sequence[Argument]
) -> Callable[[Any], Any]:
    """Mark a method of a part as a step; each argument is drawn from its domain."""

    def mark(method: Any) -> Any:
        setattr(method, _KIND, (weight, opening, tuple(map(tuple, domains.values())), searched))
        return method

    return mark


def steps_of(part: type[Any], *, searched: bool = False) -> Iterator[StepKind]:
    """The steps of a part in the order in which they are defined, or with those of searches."""
    for name, method in vars(part).items():
        if (marked := getattr(method, _KIND, None)) is not None:
            kind = StepKind(f"{part.name}.{name}", *marked)
            if searched or not kind.searched:
                yield kind


class Schedule(Struct, frozen=True):
    """The steps of one run, and the seed of what is random beneath them (links, retries)."""

    steps: tuple[Step, ...]
    seed: int = 0
    lagging: bool = False
    """Whether each watch has a lag of its own, drawn by the seed."""

    def __str__(self) -> str:
        lines = "".join(f"        {step},\n" for step in self.steps)
        lagging = "        lagging=True,\n" if self.lagging else ""
        return f"    play(\n{lines}        seed={self.seed},\n{lagging}    )"


def is_lagging(seed: int) -> bool:
    """Whether a drawn schedule of this seed has lags of watches."""
    return seed % PUNCTUAL != 0


def draw_schedule(seed: int, kinds: Mapping[str, Sequence[StepKind]]) -> Schedule:
    """A random schedule: the actions of a few features, and faults between them."""
    random = Random(seed)
    features = [name for name in kinds if name != "faults"]
    chosen = random.sample(features, min(len(features), random.choice((1, 2, 2, 3))))
    if "members" in chosen:  # sets and hosts of a cluster that leaves have laws of their own
        chosen = ["services", *(n for n in chosen if n not in ("services", "gslb", "networks"))]
    choices = [kind for name in (*chosen, "faults") for kind in kinds[name]]
    weights = [kind.weight for kind in choices]
    openings = [kind for kind in choices if kind.opening]
    steps = [kind.draw(random) for kind in openings for _ in range(random.choice((1, 2, 3)))]
    length = len(steps) + random.choice(LENGTHS)
    while len(steps) < length:
        drawn = random.choices(choices, weights)[0].draw(random)
        if not drawn.is_known:
            steps.append(drawn)
    return Schedule(tuple(steps), seed, is_lagging(seed))
