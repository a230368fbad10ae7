"""Scripts that lead to the known hazards: actions and faults in an order in which they collide."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.features.policies.expected_outcomes import ABSENT
from tests.features.policies.random_actions import COLLECTED, SLOW

if TYPE_CHECKING:
    from tests.features.policies.schedules import Schedule

Script = Callable[["Schedule"], Awaitable[None]]


async def anything(schedule: "Schedule") -> None:
    """Any actions and faults, in any order."""
    actions = (
        (schedule._create, 5),
        (schedule._edit, 5),
        (schedule._delete, 4),
        (schedule._orphan, 1),
        (schedule._create_plain, 1),
        (schedule._annotate, 1),
        (schedule._cut, 3),
        (schedule._heal_links, 1),
        (schedule._disturb_link, 2),
        (schedule._delay_watches, 1),
        (schedule._kill_or_start_agent, 2),
        (schedule._move_leadership, 3),
        (schedule._crash_at_a_request, 3),
        (schedule._restart_server, 1),
        (schedule._lose_history, 1),
        (schedule._back_up, 1),
        (schedule._restore, 2),
        (schedule._leave_or_join, 1),
        (schedule._corrupt_record, 1),
        (schedule._delete_or_create_namespace, 2 if schedule.namespaced else 0),
    )
    for _ in range(schedule.random.randint(2, 7)):
        action = schedule.random.choices([a for a, _ in actions], [w for _, w in actions])[0]
        await schedule.perform(action())


async def restore_backup(schedule: "Schedule") -> None:
    """A member is restored to a state before changes that all members know since."""
    name, where = await _create_everywhere(schedule), schedule._random_cluster()
    await schedule._back_up(where)
    for _ in range(schedule.random.randint(1, 2)):
        await _act_on(schedule, name)
    await schedule.agree()
    if schedule.random.random() < 0.5:
        await schedule.perform(_random_fault(schedule))
    await schedule._restore(where)
    if schedule.random.random() < 0.3:
        await _act_on(schedule, schedule._random_name())


async def leave_and_rejoin(schedule: "Schedule") -> None:
    """Policies change in a member that left, in the others, or in both, before it joins again."""
    name = await _create_everywhere(schedule)
    if not schedule.departed_member:
        await schedule._leave_or_join()
    member = schedule.departed_member or schedule._random_cluster()
    others = [cluster for cluster in schedule.names if cluster != member]
    for where in schedule.random.sample((member, *others), schedule.random.randint(1, 2)):
        await _act_on(schedule, name, where)
    if schedule.random.random() < 0.6:
        await _collect_tombstone(schedule, name, member)
    await schedule.perform(schedule._leave_or_join())


async def partition(schedule: "Schedule") -> None:
    """Both sides of a partition change a policy, and one side's tombstone is collected."""
    name, where = await _create_everywhere(schedule), schedule._random_cluster()
    for supervisor in schedule.random.sample(
        schedule.supervisor_names, schedule.random.randint(1, len(schedule.supervisor_names))
    ):
        schedule.fleet.network.cut(supervisor, where)
        schedule._log(f"{supervisor} is cut off from {where}")
    others = [cluster for cluster in schedule.names if cluster != where]
    await _act_on(schedule, name, schedule.random.choice(others))
    if schedule.random.random() < 0.5:
        await _act_on(schedule, name, where)
    if schedule.random.random() < 0.6:
        await _collect_tombstone(schedule, name, where)


async def replace_namespace(schedule: "Schedule") -> None:
    """A namespace is deleted and created again, while its policies change elsewhere."""
    name, where = await _create_everywhere(schedule), schedule._random_cluster()
    await schedule.perform(
        schedule._delay_watches(where)
        if schedule.random.random() < 0.7
        else _random_fault(schedule),
        soon=True,
    )
    await schedule.perform(
        schedule._delete_or_create_namespace(where), soon=schedule.random.random() < 0.6
    )
    if schedule.random.random() < 0.4:
        await _act_on(schedule, name)
    if schedule.random.random() < 0.7 and where in schedule.without_namespace:
        await schedule.perform(schedule._delete_or_create_namespace(where), soon=True)


async def crash_leader(schedule: "Schedule") -> None:
    """A leader crashes between two writes, and users act before the next one starts."""
    name = await _create_everywhere(schedule)
    for _ in range(schedule.random.randint(1, 2)):

        async def meanwhile() -> None:
            await schedule.random.choice((schedule._edit, schedule._edit, schedule._delete))(
                name=name
            )

        await schedule.perform(schedule._crash_at_a_request(meanwhile, name))


async def race(schedule: "Schedule") -> None:
    """Users and leaders write within moments of each other."""
    name = await _create_everywhere(schedule)
    for _ in range(schedule.random.randint(2, 4)):
        await schedule.perform(
            _random_fault(schedule)
            if schedule.random.random() < 0.3
            else _random_action(schedule, name),
            soon=True,
        )


async def delay_copy(schedule: "Schedule") -> None:
    """A copy is delayed on a slow link while its policy is deleted and the leader changes."""
    name, where = schedule._random_name(), schedule._random_cluster()
    others = [cluster for cluster in schedule.names if cluster != where]
    leader = schedule._leader(where)
    if leader:
        schedule.fleet.network.link(leader, where).faults = SLOW
    origin = schedule.random.choice(others)
    await schedule._create(origin, name)
    await schedule.pass_time(schedule.random.choice((0.5, 2.5, 4.5)))
    await schedule.perform(schedule._move_leadership(where), soon=True)
    await schedule.perform(schedule._delete(origin, name))
    if schedule.random.random() < 0.3:
        await _act_on(schedule, name)


def choose_script(schedule: "Schedule") -> Script:
    """Choose a script; restores are not safe where few tombstones are remembered."""
    scripts: tuple[tuple[Script, int], ...] = (
        (anything, 3),
        (restore_backup, 0 if schedule.has_short_memory else 4),
        (leave_and_rejoin, 3 if schedule.names[-1] not in schedule.supervisor_names else 0),
        (partition, 6 if schedule.has_short_memory else 2),
        (replace_namespace, 4 if schedule.namespaced else 0),
        (delay_copy, 3 if len(schedule.supervisor_names) > 1 else 0),
        (race, 2),
        (crash_leader, 4),
    )
    return schedule.random.choices([s for s, _ in scripts], [w for _, w in scripts])[0]


async def _create_everywhere(schedule: "Schedule") -> str:
    """A policy that exists in all members."""
    name = schedule._random_name()
    if schedule.expected[name].base == ABSENT:
        await schedule._create(name=name)
        await schedule.agree()
    return name


async def _act_on(schedule: "Schedule", name: str, where: str = "") -> None:
    await schedule.perform(_random_action(schedule, name, where))


async def _random_action(schedule: "Schedule", name: str, where: str = "") -> None:
    """A random action on a policy, mostly deletions, which are hardest to get right."""
    where = where or schedule._random_cluster()
    await schedule.random.choices((schedule._delete, schedule._edit, schedule._create), (6, 3, 2))[
        0
    ](where, name)


async def _collect_tombstone(schedule: "Schedule", name: str, away: str) -> None:
    """Let enough time pass, and delete other policies, until a tombstone is forgotten."""
    await schedule.pass_time(COLLECTED)
    if not schedule.has_short_memory:
        return
    where = schedule.random.choice([cluster for cluster in schedule.names if cluster != away])
    for other in schedule.expected:
        if other != name and other not in schedule._orphaned_names():
            await schedule._create(where, other)
            await schedule.pass_time(COLLECTED)
            await schedule._delete(where, other)
            await schedule.pass_time(COLLECTED)


async def _random_fault(schedule: "Schedule") -> None:
    faults = (
        schedule._disturb_link,
        schedule._delay_watches,
        schedule._kill_or_start_agent,
        schedule._move_leadership,
        schedule._restart_server,
        schedule._crash_at_a_request,
    )
    await schedule.random.choice(faults)()
