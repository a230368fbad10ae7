"""Laws of believed shares: a record that anyone may write takes no replica and adds none."""

from hypothesis import given
from hypothesis import strategies as st

from hanse.features.statefulsets.planner import distribute
from hanse.features.statefulsets.share_basis import ShareBasis, ShareSources, share_basis
from hanse.features.statefulsets.submitted import from_stateful_set
from tests.features.statefulsets.given import part, record, submitted_set

CLUSTERS = ("bergen", "hamburg", "lubeck", "rome")
_shares = st.dictionaries(st.sampled_from(CLUSTERS), st.integers(0, 12), max_size=4)
_healthy = st.lists(st.sampled_from(CLUSTERS), unique=True, min_size=1).map(
    lambda names: tuple(sorted(names))
)


def believed(
    wanted: int,
    recorded: dict[str, int],
    reported: dict[str, int],
    healthy: tuple[str, ...] = CLUSTERS,
) -> ShareBasis:
    submitted = from_stateful_set(submitted_set(wanted))
    parts = {c: part(c, n).spec for c, n in reported.items()}
    sources = ShareSources(submitted, record(True, **recorded), parts, frozenset(), healthy)
    return share_basis(sources, lambda before: distribute(wanted, before, healthy).shares)


@given(wanted=st.integers(0, 40), forged=_shares, reported=_shares, healthy=_healthy)
def test_no_record_takes_a_replica_that_the_set_wants(
    wanted: int, forged: dict[str, int], reported: dict[str, int], healthy: tuple[str, ...]
) -> None:
    basis = believed(wanted, forged, reported, healthy)

    ran = sum(reported.get(c, 0) for c in healthy)
    runs = sum(basis.shares.get(c, 0) for c in healthy if c in reported)
    assert runs >= min(wanted, ran)


@given(wanted=st.integers(0, 40), forged=_shares, reported=_shares, healthy=_healthy)
def test_a_cluster_follows_only_towards_what_it_computes_itself(
    wanted: int, forged: dict[str, int], reported: dict[str, int], healthy: tuple[str, ...]
) -> None:
    basis = believed(wanted, forged, reported, healthy)
    silent = {c: n for c, n in forged.items() if c not in healthy}
    computed = distribute(wanted, {**silent, **reported}, healthy).shares

    running = {c: n for c, n in reported.items() if c in healthy}
    keeps_enough = sum(forged.values()) == wanted
    if keeps_enough and all(n <= running.get(c, 0) for c, n in forged.items()):
        return  # it only says which of too many go
    for cluster, share in reported.items():
        low, high = sorted((share, computed.get(cluster, 0)))
        assert low <= basis.shares.get(cluster, 0) <= high


@given(wanted=st.integers(0, 40), reported=_shares, data=st.data())
def test_a_right_record_is_believed_whoever_has_followed_it_already(
    wanted: int, reported: dict[str, int], data: st.DataObject
) -> None:
    right = distribute(wanted, reported, CLUSTERS).shares
    followed = data.draw(st.sets(st.sampled_from(CLUSTERS)))
    now = {**reported, **{c: right.get(c, 0) for c in followed}}

    basis = believed(wanted, right, now)

    assert basis.disputed == ()
    assert distribute(wanted, basis.shares, CLUSTERS).shares == right


@given(
    wanted=st.lists(st.integers(0, 20), min_size=1, max_size=4),
    forged=st.lists(_shares, min_size=4, max_size=4),
    order=st.lists(st.sampled_from(CLUSTERS), max_size=12),
)
def test_all_agree_once_nobody_forges_any_more(
    wanted: list[int], forged: list[dict[str, int]], order: list[str]
) -> None:
    reported: dict[str, int] = {}
    for step, replicas in enumerate(wanted):
        for cluster in order[step::4]:
            basis = believed(replicas, forged[step], reported)
            reported[cluster] = basis.shares.get(cluster, 0)
    last, written = wanted[-1], forged[-1]
    for _ in range(2 * len(CLUSTERS)):
        basis = believed(last, written, reported)
        written = distribute(last, basis.shares, CLUSTERS).shares
        for cluster in CLUSTERS:
            reported[cluster] = believed(last, written, reported).shares.get(cluster, 0)

    assert sum(reported.values()) == last
    assert believed(last, written, reported).disputed == ()
    assert {c: n for c, n in reported.items() if n} == written
