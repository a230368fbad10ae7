"""What leads to the known hazards: deeds and faults in an order in which they meet."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.features.policies.expected_outcomes import ABSENT
from tests.features.policies.random_actions import COLLECTED, SLOW

if TYPE_CHECKING:
    from tests.features.policies.schedules import Schedule

Plot = Callable[["Schedule"], Awaitable[None]]


async def anything(it: "Schedule") -> None:
    """Whatever comes, in any order."""
    deeds = (
        (it._create, 5),
        (it._edit, 5),
        (it._delete, 4),
        (it._unannotate, 1),
        (it._create_plain, 1),
        (it._annotate, 1),
        (it._cut, 3),
        (it._mend, 1),
        (it._storm, 2),
        (it._lag, 1),
        (it._kill, 2),
        (it._move, 3),
        (it._crash_at_a_request, 3),
        (it._restart_server, 1),
        (it._lose_history, 1),
        (it._back_up, 1),
        (it._restore, 2),
        (it._leave_or_join, 1),
        (it._spoil_a_record, 1),
        (it._raze, 2 if it.namespaced else 0),
    )
    for _ in range(it.random.randint(2, 7)):
        deed = it.random.choices([d for d, _ in deeds], [w for _, w in deeds])[0]
        await it.happens(deed())


async def restored(it: "Schedule") -> None:
    """A member goes back to before something that all have heard of since."""
    name, where = await _stands(it), it._cluster()
    await it._back_up(where)
    for _ in range(it.random.randint(1, 2)):
        await _changes(it, name)
    await it.agree()
    if it.random.random() < 0.5:
        await it.happens(_fault(it))
    await it._restore(where)
    if it.random.random() < 0.3:
        await _changes(it, it._name())


async def rejoined(it: "Schedule") -> None:
    """A member is away while things are done in it, in the others, or in both."""
    name = await _stands(it)
    if not it.outside:
        await it._leave_or_join()
    member = it.outside or it._cluster()
    others = [cluster for cluster in it.names if cluster != member]
    for where in it.random.sample((member, *others), it.random.randint(1, 2)):
        await _changes(it, name, where)
    if it.random.random() < 0.6:
        await _is_forgotten(it, name, member)
    await it.happens(it._leave_or_join())


async def parted(it: "Schedule") -> None:
    """Both sides of a broken link do something, and what one side did is long past."""
    name, where = await _stands(it), it._cluster()
    for chief in it.random.sample(it.chiefs, it.random.randint(1, len(it.chiefs))):
        it.realm.network.cut(chief, where)
        it._tell(f"{chief} is cut off from {where}")
    others = [cluster for cluster in it.names if cluster != where]
    await _changes(it, name, it.random.choice(others))
    if it.random.random() < 0.5:
        await _changes(it, name, where)
    if it.random.random() < 0.6:
        await _is_forgotten(it, name, where)


async def homeless(it: "Schedule") -> None:
    """A namespace goes and comes back, while its policies are changed elsewhere."""
    name, where = await _stands(it), it._cluster()
    await it.happens(it._lag(where) if it.random.random() < 0.7 else _fault(it), soon=True)
    await it.happens(it._raze(where), soon=it.random.random() < 0.6)
    if it.random.random() < 0.4:
        await _changes(it, name)
    if it.random.random() < 0.7 and where in it.homeless:
        await it.happens(it._raze(where), soon=True)


async def interrupted(it: "Schedule") -> None:
    """A leader dies in the middle of its work, and people go on before the next one looks."""
    name = await _stands(it)
    for _ in range(it.random.randint(1, 2)):

        async def meanwhile() -> None:
            await it.random.choice((it._edit, it._edit, it._delete))(name=name)

        await it.happens(it._crash_at_a_request(meanwhile, name))


async def raced(it: "Schedule") -> None:
    """People meet each other and the leaders within moments."""
    name = await _stands(it)
    for _ in range(it.random.randint(2, 4)):
        await it.happens(_fault(it) if it.random.random() < 0.3 else _deed(it, name), soon=True)


async def late(it: "Schedule") -> None:
    """A copy is on a slow way while its policy ends and somebody else comes to lead."""
    name, where = it._name(), it._cluster()
    others = [cluster for cluster in it.names if cluster != where]
    leader = it._leader(where)
    if leader:
        it.realm.network.link(leader, where).faults = SLOW
    origin = it.random.choice(others)
    await it._create(origin, name)
    await it.pass_time(it.random.choice((0.5, 2.5, 4.5)))
    await it.happens(it._move(where), soon=True)
    await it.happens(it._delete(origin, name))
    if it.random.random() < 0.3:
        await _changes(it, name)


def plot_for(it: "Schedule") -> Plot:
    """One of them; backups are not promised to be good where memories are short."""
    plots: tuple[tuple[Plot, int], ...] = (
        (anything, 3),
        (restored, 0 if it.forgetful else 4),
        (rejoined, 3 if it.names[-1] not in it.chiefs else 0),
        (parted, 6 if it.forgetful else 2),
        (homeless, 4 if it.namespaced else 0),
        (late, 3 if len(it.chiefs) > 1 else 0),
        (raced, 2),
        (interrupted, 4),
    )
    return it.random.choices([p for p, _ in plots], [w for _, w in plots])[0]


async def _stands(it: "Schedule") -> str:
    """A policy that all have, and agree on."""
    name = it._name()
    if it.believed[name].base == ABSENT:
        await it._create(name=name)
        await it.agree()
    return name


async def _changes(it: "Schedule", name: str, where: str = "") -> None:
    await it.happens(_deed(it, name, where))


async def _deed(it: "Schedule", name: str, where: str = "") -> None:
    """Something is done to a policy, deletions being what is hardest to get right."""
    where = where or it._cluster()
    await it.random.choices((it._delete, it._edit, it._create), (6, 3, 2))[0](where, name)


async def _is_forgotten(it: "Schedule", name: str, away: str) -> None:
    """Enough time passes, and enough else is deleted, for a tombstone to be collected."""
    await it.pass_time(COLLECTED)
    if not it.forgetful:
        return
    where = it.random.choice([cluster for cluster in it.names if cluster != away])
    for other in it.believed:
        if other != name and other not in it._orphans():
            await it._create(where, other)
            await it.pass_time(COLLECTED)
            await it._delete(where, other)
            await it.pass_time(COLLECTED)


async def _fault(it: "Schedule") -> None:
    faults = (it._storm, it._lag, it._kill, it._move, it._restart_server, it._crash_at_a_request)
    await it.random.choice(faults)()
