"""Schedules that broke a law once, each shrunk to the steps that it took."""

import pytest

from tests.support.simulator.forks import play
from tests.support.simulator.runner import parts_named
from tests.support.simulator.schedule import Step, do

SERVICES = parts_named(["services", "members"])


@pytest.mark.parametrize("restore", ["faults.restore", "faults.restore_forward"])
@pytest.mark.parametrize("pause", [40, 81.01])
def test_a_restored_broker_takes_no_answer_away(restore: str, pause: float) -> None:
    play(
        do("services.offer", "lubeck", "web", False, pause=pause),
        do(restore, "broker", 0),
        parts=SERVICES,
    )


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_a_pod_gets_its_port_where_an_agent_that_starts_lists_networks_last(seed: int) -> None:
    play(
        do("faults.restore", "broker", 3, pause=5),
        do("faults.restore_forward", "lubeck", 2),
        do("networks.build", "yard"),
        do("faults.kill_at", "lubeck", 211, pause=66),
        seed=seed,
        parts=parts_named(["networks"]),
    )


def test_exports_say_who_imports_them_when_a_cluster_leaves() -> None:
    play(
        do("services.offer", "bergen", "web", False, pause=20),
        do("services.offer", "lubeck", "db", True, pause=5),
        do("members.leave", "bergen"),
        seed=26,
    )


def test_a_dead_cluster_that_was_left_out_stays_out() -> None:
    play(
        do("services.offer", "lubeck", "web", False, pause=20),
        do("faults.back_up", "broker"),
        do("faults.kill", "lubeck", pause=40),
        do("faults.restart", "hamburg", pause=40),
        do("faults.restart_server", "broker", pause=5),
        do("faults.restart", "bergen", pause=40),
        do("faults.restore", "broker", 0, pause=40),
        do("faults.restart", "hamburg", pause=40),
        do("faults.restore_forward", "broker", 0, pause=40),
        parts=SERVICES,
    )


def test_a_new_template_takes_one_replica_at_a_time() -> None:
    play(do("statefulsets.launch", 5, pause=40), do("statefulsets.update", "2", pause=40))


def test_a_restarted_name_server_answers_the_clusterset_ip_from_the_start() -> None:
    play(
        do("services.set_profile", "kep-1645"),
        do("services.offer", "bergen", "db", False, pause=5),
        do("faults.restart", "bergen", pause=5),
        do("faults.cut", "bergen", "broker"),
        do("faults.restart", "bergen", pause=5),
        parts=SERVICES,
    )


def test_a_name_server_that_starts_denies_nothing() -> None:
    play(
        do("faults.crash", 16, pause=40),
        do("services.offer", "lubeck", "web", False, pause=1),
        do("faults.kill", "hamburg"),
        do("faults.restart", "lubeck"),
        seed=1089,
        parts=SERVICES,
    )


@pytest.mark.parametrize(
    "fault",
    [
        do("faults.forbid", "lubeck", "broker", "writes", pause=40),
        do("faults.kill_at", "lubeck", 47, pause=5),
        do("services.lose_crd", "hamburg", 20, pause=5),
    ],
)
def test_lost_rights_processes_and_definitions_cost_no_answer(fault: Step) -> None:
    play(
        do("services.offer", "lubeck", "web", False, pause=5),
        do("services.offer", "bergen", "db", True, pause=5),
        fault,
        parts=SERVICES,
    )


def test_a_clusterset_ip_outlives_the_silence_of_its_only_exporter() -> None:
    play(
        do("services.offer", "lubeck", "web", False),
        do("services.set_profile", "kep-1645", pause=1),
        do("faults.kill", "lubeck", pause=40),
        seed=1121,
        parts=SERVICES,
    )


@pytest.mark.parametrize("silence", [1, 40])
def test_a_clusterset_ip_outlives_a_broker_that_forgot_its_silent_exporter(silence: int) -> None:
    play(
        do("services.set_profile", "kep-1645", pause=5),
        do("faults.back_up", "broker", pause=5),
        do("services.offer", "lubeck", "web", False, pause=20),
        do("faults.kill", "lubeck", pause=silence),
        do("faults.restore", "broker", 0, pause=81.01),
        parts=SERVICES,
    )


def test_an_agent_that_starts_blind_denies_nothing_when_it_reads_leases_before_the_clock() -> None:
    play(
        do("services.offer", "bergen", "web", False, pause=5),
        do("faults.kill", "lubeck", pause=30),
        do("faults.cut", "lubeck", "lubeck"),
        do("faults.cut", "lubeck", "broker"),
        do("faults.restart", "lubeck", pause=31),
        do("faults.heal_links", pause=20),
        seed=10342,
        parts=SERVICES,
    )


def test_a_reader_that_starts_over_a_restored_broker_keeps_what_stands() -> None:
    play(
        do("services.offer", "lubeck", "web", False, pause=60),
        do("faults.back_up", "broker", pause=50),
        do("faults.restore_forward", "broker", 0, pause=0.1),
        do("faults.restart", "hamburg", pause=40),
        parts=SERVICES,
    )


def test_an_export_in_another_form_replaces_the_earlier_one() -> None:
    play(
        do("services.offer", "hamburg", "db", False, pause=0.01),
        do("faults.forbid", "hamburg", "broker", "writes"),
        do("services.set_profile", "kep-1645", pause=1),
        seed=11126,
        parts=SERVICES,
    )


def test_imported_slices_stand_before_their_import_says_so() -> None:
    play(
        do("services.offer", "hamburg", "web", True, pause=40),
        do("services.offer", "hamburg", "db", True, pause=0.01),
        do("faults.kill_at", "lubeck", 1),
        do("faults.restore", "broker", 3),
        seed=11278,
        parts=SERVICES,
    )


def test_what_a_restored_broker_forgot_that_left_may_conflict() -> None:
    play(
        do("services.offer", "lubeck", "web", True, pause=5),
        do("services.offer", "hamburg", "web", False, pause=40),
        do("members.give_up", "lubeck", pause=1),
        do("faults.restore", "broker", 0, pause=20),
        do("faults.restart", "lubeck", pause=5),
        parts=SERVICES,
    )


def test_an_import_deleted_unseen_is_missed_when_it_is_seen() -> None:
    play(
        do("services.offer", "hamburg", "db", False, pause=1),
        do("faults.cut", "hamburg", "hamburg"),
        do("services.delete_import", "hamburg", "db", pause=85),
        seed=20111,
        parts=SERVICES,
    )


def test_an_import_lost_with_a_restore_unseen_is_missed_when_it_is_seen() -> None:
    play(
        do("services.offer", "lubeck", "db", False, pause=1),
        do("faults.cut", "hamburg", "hamburg"),
        do("faults.restore", "hamburg", 3, pause=95.1),
        seed=51352,
        parts=SERVICES,
    )


def test_an_export_that_nobody_could_withdraw_may_conflict() -> None:
    play(
        do("services.offer", "bergen", "db", False),
        do("services.offer", "lubeck", "db", True, pause=40),
        do("faults.cut", "bergen", "broker"),
        do("faults.restore_forward", "bergen", 0, pause=20),
        seed=20415,
        parts=SERVICES,
    )


def test_a_dead_cluster_does_not_return_with_a_restored_broker() -> None:
    play(
        do("services.offer", "hamburg", "db", True, pause=1),
        do("faults.kill", "hamburg", pause=20),
        do("faults.kill_at", "lubeck", 5, pause=1),
        do("faults.restore", "broker", 2, pause=31),
        seed=20946,
        parts=SERVICES,
    )


def test_a_profile_that_is_taken_back_at_once_may_cost_an_answer() -> None:
    play(
        do("services.offer", "hamburg", "web", False, pause=40),
        do("services.set_profile", "kep-1645"),
        do("services.set_profile", "lighthouse"),
        parts=SERVICES,
    )


def test_an_import_stands_when_the_own_export_follows_the_last_of_others() -> None:
    play(
        do("services.offer", "hamburg", "web", False, pause=1),
        do("services.offer", "bergen", "web", False),
        do("faults.stop", "bergen"),
        do("faults.restart_server", "bergen", pause=40),
        do("faults.restore", "hamburg", 0),
        do("faults.restart", "hamburg", pause=25),
        seed=20506,
        parts=SERVICES,
    )


def test_an_aggregate_goes_when_its_last_exporter_is_heard_of_again() -> None:
    play(
        do("members.leave", "lubeck", pause=25),
        do("members.give_up", "hamburg", pause=25),
        do("services.offer", "bergen", "web", False, pause=55),
        do("services.unexport", "bergen", "web"),
        do("faults.kill", "bergen", pause=25),
        seed=40002,
        parts=SERVICES,
    )


def test_a_host_that_is_answered_late_and_served_nowhere_may_go() -> None:
    play(
        do("networks.build", "yard", pause=6),
        do("gslb.serve", "bergen"),
        do("faults.kill_at", "hamburg", 101, pause=65.12),
        do("gslb.stop_serving", "bergen", pause=25.01),
        seed=50015,
        parts=parts_named(["gslb", "networks"]),
    )


def test_deletions_that_are_due_by_a_clock_set_right_are_collected_in_time() -> None:
    play(
        do("faults.jump_clock", "lubeck", -3600, pause=40),
        do("policies.create", "hamburg", "allow", pause=0.1),
        do("policies.delete", "hamburg", "allow", pause=0.1),
        seed=31,
        parts=parts_named(["federated", "policies"]),
    )


def test_a_service_that_joins_again_after_a_restore_keeps_its_address_everywhere() -> None:
    play(
        do("federated.join", "bergen", "shop-web", pause=40),
        do("faults.restore", "bergen", 0, pause=5),
        do("federated.join", "bergen", "shop-web", pause=40),
        parts=parts_named(["federated"]),
    )


@pytest.mark.parametrize("first", ["lubeck", "hamburg"])
def test_supervisors_that_start_keep_what_a_restored_member_will_record(first: str) -> None:
    play(
        do("federated.join", "bergen", "shop-web", pause=40),
        do("faults.kill", "lubeck"),
        do("faults.kill", "hamburg"),
        do("faults.restore", "bergen", 0, pause=1),
        do("federated.join", "bergen", "shop-web"),
        do("faults.restart", first, pause=20),
        parts=parts_named(["federated"]),
    )


def test_a_service_that_joins_again_while_nobody_sees_it_keeps_its_address_everywhere() -> None:
    play(
        do("federated.join", "bergen", "shop-web", pause=40),
        do("faults.cut", "lubeck", "bergen"),
        do("faults.restore", "bergen", 0, pause=3),
        do("federated.join", "bergen", "shop-web", pause=1),
        do("faults.cut", "hamburg", "bergen", pause=60),
        parts=parts_named(["federated"]),
    )


def test_a_host_that_ended_is_answered_nowhere_after_a_restore() -> None:
    play(
        do("gslb.serve", "bergen", pause=40),
        do("faults.forbid", "lubeck", "hamburg", "writes"),
        do("faults.restore", "hamburg", 3, pause=40),
        do("gslb.stop_serving", "bergen"),
        parts=parts_named(["gslb"]),
    )


def test_a_person_may_evict_a_replica_where_no_budget_counts_them() -> None:
    play(
        do("statefulsets.launch", 3, pause=60),
        do("statefulsets.scale", 4, pause=0.1),
        do("statefulsets.drain", "bergen"),
        parts=parts_named(["services", "statefulsets"]),
    )


def test_a_restored_cluster_may_be_promoted() -> None:
    play(
        do("faults.restore", "hamburg", 1, pause=40),
        do("gslb.promote", "hamburg"),
        parts=parts_named(["gslb"]),
    )


def test_a_set_that_grows_and_rolls_out_keeps_its_only_replica_until_others_are_ready() -> None:
    play(
        do("statefulsets.launch", 1, pause=1),
        do("statefulsets.update", "2"),
        do("statefulsets.scale", 2),
        seed=9088,
        parts=parts_named(["statefulsets"]),
    )


def test_a_host_that_ended_while_nobody_saw_it_is_answered_nowhere() -> None:
    play(
        do("gslb.serve", "bergen", pause=40),
        do("faults.cut", "hamburg", "hamburg"),
        do("gslb.stop_serving", "bergen", pause=20),
        parts=parts_named(["gslb"]),
    )


@pytest.mark.parametrize("restored", [("lubeck", "hamburg"), ("lubeck", "hamburg", "bergen")])
def test_a_host_that_ended_with_restored_clusters_is_answered_nowhere(
    restored: tuple[str, ...],
) -> None:
    play(
        do("gslb.serve", "lubeck", pause=20),
        *(do("faults.restore_forward", cluster, 0, pause=0.01) for cluster in restored),
        parts=parts_named(["gslb"]),
    )


def test_a_host_that_ended_while_nobody_was_allowed_to_read_is_answered_nowhere() -> None:
    play(
        do("gslb.serve", "lubeck", pause=5),
        do("faults.forbid", "hamburg", "hamburg", "everything"),
        do("faults.restore", "lubeck", 0, pause=30),
        parts=parts_named(["gslb"]),
    )


def test_a_leader_that_is_restored_from_before_its_promotion_leads_on() -> None:
    play(
        do("gslb.serve", "lubeck"),
        do("gslb.demote", "lubeck", pause=1),
        do("gslb.promote", "lubeck", pause=1),
        do("faults.restore", "lubeck", 3),
        seed=355987420,
        parts=parts_named(["gslb"]),
    )


def test_a_host_that_returns_while_nobody_sees_it_stays_answered() -> None:
    play(
        do("gslb.serve", "lubeck", pause=41),
        do("faults.cut", "lubeck", "lubeck", pause=31.1),
        do("faults.heal_links", pause=0.01),
        do("faults.restore", "lubeck", 0, pause=75),
        do("faults.forbid", "lubeck", "lubeck", "everything", pause=20),
        do("gslb.serve", "bergen", pause=30.01),
        seed=942958607,
        parts=parts_named(["gslb"]),
    )


def test_a_fleet_that_waits_to_write_what_was_refused_is_not_at_rest() -> None:
    play(
        do("gslb.serve", "lubeck", pause=30),
        do("faults.restore", "hamburg", 0, pause=0.1),
        do("faults.restart", "lubeck"),
        do("faults.forbid", "lubeck", "lubeck", "writes", pause=60),
        seed=7,
        parts=parts_named(["gslb"]),
    )


def test_a_replica_may_be_replaced_by_what_was_wanted_just_before() -> None:
    play(
        do("statefulsets.launch", 1, pause=1),
        do("statefulsets.update", "1", pause=0.01),
        do("statefulsets.scale", 6),
        seed=9490,
        parts=parts_named(["statefulsets"]),
    )


def test_a_set_is_rolled_out_while_a_cluster_without_a_share_is_away() -> None:
    play(
        do("statefulsets.launch", 3),
        do("statefulsets.update", "1", pause=1),
        do("faults.forbid", "lubeck", "broker", "writes", pause=20),
        do("faults.restore", "broker", 1),
        do("statefulsets.launch", 3, pause=40),
        seed=9475,
        parts=parts_named(["statefulsets"]),
    )


@pytest.mark.parametrize("unseen", [1, 25])
def test_what_a_cluster_published_before_it_left_counts_nowhere_once_it_joined_again(
    unseen: int,
) -> None:
    play(
        do("services.offer", "hamburg", "db", True, pause=1),
        do("faults.kill", "bergen", pause=40),
        do("members.give_up", "hamburg", pause=40),
        do("faults.cut", "hamburg", "hamburg"),
        do("members.join", "hamburg", pause=unseen),
        seed=50247,
        parts=SERVICES,
    )


@pytest.mark.parametrize("restore", ["faults.restore", "faults.restore_forward"])
def test_a_service_that_joins_again_right_after_a_restore_is_known_by_what_shows_it(
    restore: str,
) -> None:
    play(
        do("federated.join", "hamburg", "shop-fish", pause=40),
        do(restore, "hamburg", 0, pause=0.1),
        do("federated.join", "hamburg", "shop-fish", pause=20),
        parts=parts_named(["federated"]),
    )


def test_a_fleet_is_at_rest_once_a_restored_cluster_has_recovered() -> None:
    play(
        do("services.offer", "lubeck", "web", False),
        do("services.set_profile", "kep-1645", pause=1),
        do("faults.back_up", "bergen"),
        do("services.set_profile", "lighthouse", pause=1),
        do("faults.restore", "bergen", 0, pause=20),
        do("faults.forbid", "bergen", "bergen", "everything", pause=40),
        seed=51306,
        parts=SERVICES,
    )


def test_a_host_whose_members_are_all_replaced_stays_answered() -> None:
    play(
        do("gslb.serve", "lubeck", pause=40),
        do("faults.kill", "lubeck", pause=60),
        do("gslb.serve", "hamburg"),
        do("gslb.stop_serving", "lubeck"),
        parts=parts_named(["gslb"]),
    )


def test_a_cluster_that_renewed_while_we_were_away_counts_whatever_the_clock_was_set_to() -> None:
    play(
        do("services.offer", "lubeck", "web", False, pause=5),
        do("faults.jump_clock", "broker", -3600),
        do("faults.kill", "hamburg", pause=65.01),
        seed=50,
        parts=SERVICES,
    )


def test_a_slice_without_its_import_goes_once_its_cluster_is_known_not_to_export() -> None:
    play(
        do("services.offer", "lubeck", "db", False, pause=1),
        do("faults.kill", "hamburg"),
        do("faults.restart_server", "lubeck"),
        do("services.delete_import", "hamburg", "db", pause=41),
        do("faults.restore_forward", "lubeck", 0, pause=40.01),
        do("faults.restore_forward", "broker", 1, pause=6),
        seed=51920,
        parts=SERVICES,
    )


def test_a_host_may_go_when_nobody_could_see_the_place_that_serves_it_now() -> None:
    play(
        do("gslb.serve", "hamburg", pause=65),
        do("faults.forbid", "lubeck", "lubeck", "everything"),
        do("gslb.serve", "lubeck"),
        do("faults.restore", "hamburg", 1, pause=40.01),
        seed=52089,
        parts=parts_named(["gslb"]),
    )


def test_a_host_stays_answered_when_its_leader_reads_its_restored_cluster_again() -> None:
    play(
        do("gslb.serve", "lubeck", pause=20),
        do("faults.forbid", "lubeck", "lubeck", "everything", pause=0.01),
        do("faults.restore_forward", "lubeck", 1, pause=20),
        do("gslb.serve", "lubeck", pause=60),
        seed=52089,
        parts=parts_named(["gslb"]),
    )


@pytest.mark.parametrize("seed", [1, 7])
def test_endpoints_that_a_restored_member_lost_unseen_go(seed: int) -> None:
    play(
        do("federated.join", "bergen", "shop-web", pause=20),
        do("faults.cut", "hamburg", "bergen", pause=0.1),
        do("faults.restore", "bergen", 1, pause=21.1),
        seed=seed,
        parts=parts_named(["federated"]),
    )


def test_a_cluster_that_died_while_others_were_reconnecting_has_their_time_to_reconnect() -> None:
    play(
        do("services.offer", "lubeck", "db", False),
        do("faults.forbid", "bergen", "broker", "everything", pause=40),
        do("faults.heal_links"),
        do("faults.stop", "lubeck", pause=40),
        seed=52871,
        parts=parts_named(["services"]),
    )


def test_a_service_that_leaves_and_joins_at_once_may_be_gone_while_members_follow() -> None:
    play(
        do("networks.build", "field", pause=0.1),
        do("networks.run", "p3", "field"),
        do("federated.join", "bergen", "shop-web", pause=5.01),
        do("faults.storm", "lubeck", "lubeck", pause=5),
        do("federated.leave", "bergen", "shop-web", pause=0.1),
        do("federated.join", "bergen", "shop-web"),
        seed=52921,
        parts=parts_named(["federated", "networks"]),
    )


def test_the_oldest_export_is_the_same_everywhere_when_the_clock_of_the_broker_was_set_back() -> (
    None
):
    play(
        do("faults.jump_clock", "broker", 3600),
        do("services.offer", "lubeck", "db", False, pause=1),
        do("services.offer", "bergen", "db", True),
        seed=53044,
        parts=SERVICES,
    )


@pytest.mark.parametrize("seed", [1, 53902])
def test_a_new_leader_keeps_the_endpoints_of_a_member_that_it_heard_nothing_of_since(
    seed: int,
) -> None:
    play(
        do("federated.join", "bergen", "shop-fish"),
        do("faults.hang", "lubeck", "bergen", pause=1),
        do("faults.forbid", "hamburg", "hamburg", "everything", pause=40),
        seed=seed,
        parts=parts_named(["federated"]),
    )


def test_what_was_exported_for_a_moment_before_a_restore_may_be_answered_after_it() -> None:
    play(
        do("services.offer", "lubeck", "db", False, pause=10.1),
        do("faults.back_up", "lubeck", pause=60),
        do("services.offer", "lubeck", "db", False),
        do("faults.restore_forward", "lubeck", 2),
        seed=60003,
        parts=parts_named(["services"]),
    )


def test_what_a_replaced_cluster_published_may_be_gone_until_it_has_published_anew() -> None:
    play(
        do("services.offer", "lubeck", "db", True, pause=5.1),
        do("faults.stall", "lubeck", 20, pause=40),
        do("faults.late_watches", "hamburg", "broker", pause=6),
        do("members.replace", "lubeck"),
        seed=54356,
        parts=SERVICES,
    )


def test_what_stands_stays_where_a_reader_restarts_just_after_its_broker_was_restored() -> None:
    """61039: a Lease of the backup says nothing of a holder that could not renew it since."""
    play(
        do("services.offer", "lubeck", "db", False, pause=66.01),
        do("faults.restore", "broker", 3),
        do("faults.kill", "lubeck"),
        do("faults.restart_server", "lubeck"),
        do("faults.crash", 2),
        seed=61039,
        parts=parts_named(["services", "members", "statefulsets"]),
    )


@pytest.mark.parametrize("pause", [1, 40])
def test_a_set_that_is_submitted_again_scales_down_what_it_released(pause: int) -> None:
    play(
        do("statefulsets.launch", 5, pause=pause),
        do("statefulsets.orphan", pause=pause),
        do("statefulsets.launch", 1, pause=pause),
        seed=71512,
        parts=parts_named(["services", "statefulsets"]),
    )


def test_a_set_that_is_submitted_again_replaces_pods_that_never_ran() -> None:
    play(
        do("statefulsets.launch", 3, pause=40),
        do("statefulsets.update_badly", "4", pause=1),
        do("statefulsets.orphan", pause=1),
        do("statefulsets.launch", 3, pause=40),
        seed=71144,
        parts=parts_named(["services", "statefulsets"]),
    )


def test_a_set_that_is_submitted_again_replaces_what_it_released_when_others_are_ready() -> None:
    play(
        do("statefulsets.launch", 1, pause=40),
        do("statefulsets.update", "3"),
        do("faults.kill_at", "lubeck", 11),
        do("statefulsets.orphan", pause=1),
        do("statefulsets.launch", 3, pause=40),
        seed=71122,
        lagging=True,
        parts=parts_named(["services", "statefulsets"]),
    )


def test_a_replica_whose_pod_is_not_seen_yet_is_not_replaced_as_one_that_is_down() -> None:
    play(
        do("statefulsets.launch", 1, pause=41.01),
        do("statefulsets.scale", 4, pause=1),
        do("statefulsets.update_badly", "5"),
        seed=52049,
        lagging=True,
        parts=parts_named(["services", "statefulsets"]),
    )


WAYS = ("claim", "federation", "members")
HANDING_OVER = 5
"""Seconds after which a supervisor that was demoted resigns from its members."""


@pytest.mark.parametrize(
    ("first", "last", "pause"),
    [
        *((first, last, HANDING_OVER) for first in WAYS for last in WAYS),
        *(("members", "claim", pause) for pause in (0, 1, 6, 40)),
    ],
)
@pytest.mark.parametrize("supervisors", [("lubeck", "hamburg"), ("hamburg", "lubeck")])
def test_supervisors_that_retire_one_after_the_other_take_nothing_away(
    supervisors: tuple[str, str], first: str, last: str, pause: float
) -> None:
    play(
        do("federated.join", "lubeck", "shop-fish", pause=5),
        do("federated.demote", supervisors[0], first, pause=pause),
        do("federated.demote", supervisors[1], last, pause=1),
        parts=parts_named(["federated"]),
    )


@pytest.mark.parametrize("restore", ["faults.restore", "faults.restore_forward"])
@pytest.mark.parametrize("seed", [1, 5])
def test_a_member_restored_to_a_moment_ago_loses_no_endpoints_elsewhere(
    seed: int, restore: str
) -> None:
    """52773: a backup has the endpoints of a Service, and its record from before them."""
    play(
        do("federated.join", "hamburg", "shop-fish", pause=0.1),
        do("faults.back_up", "hamburg", pause=5),
        do(restore, "hamburg", 0),
        seed=seed,
        lagging=True,
        parts=parts_named(["federated"]),
    )


@pytest.mark.parametrize(
    ("unseen", "pause"),
    [
        ((do("faults.stop", "hamburg"),), 0),
        ((do("faults.hang", "hamburg", "lubeck"),), 20),
        ((do("faults.restart", "hamburg", pause=20), do("faults.hang", "hamburg", "lubeck")), 20),
    ],
    ids=["stopped", "hanging", "listed-and-hanging"],
)
def test_endpoints_go_that_a_member_lost_with_a_restore_before_it_wrote_more(
    unseen: tuple[Step, ...], pause: int
) -> None:
    """52354: by its version alone nobody sees that it was restored."""
    play(
        do("federated.join", "lubeck", "shop-fish", pause=1),
        *unseen,
        do("faults.restore", "lubeck", 1, pause=pause),
        do("federated.demote", "lubeck", "members"),
        seed=52354,
        parts=parts_named(["federated"]),
    )


def test_a_cluster_that_leaves_answers_clusterset_ips_until_they_are_withdrawn() -> None:
    play(
        do("services.offer", "lubeck", "db", False, pause=1),
        do("services.set_profile", "kep-1645", pause=0.01),
        do("members.give_up", "bergen", pause=1),
        seed=74067,
        lagging=True,
        parts=SERVICES,
    )


@pytest.mark.parametrize("seed", [72097, 1])
def test_a_clusterset_ip_may_end_when_the_only_cluster_that_exports_it_is_replaced(
    seed: int,
) -> None:
    play(
        do("services.offer", "hamburg", "web", False),
        do("services.set_profile", "kep-1645", pause=10.11),
        do("members.replace", "hamburg"),
        seed=seed,
        lagging=True,
        parts=SERVICES,
    )


@pytest.mark.parametrize("seed", [74108, 1])
def test_an_export_whose_agent_stood_still_while_the_broker_was_restored_is_answered(
    seed: int,
) -> None:
    play(
        do("services.offer", "hamburg", "db", False, pause=0.01),
        do("faults.stop", "hamburg"),
        do("faults.restore", "broker", 0, pause=10.01),
        seed=seed,
        parts=SERVICES,
    )


@pytest.mark.parametrize("seed", [74097, 1, 2])
def test_nothing_of_a_replaced_cluster_is_answered_while_the_new_one_has_no_lease(
    seed: int,
) -> None:
    play(
        do("services.offer", "hamburg", "db", True, pause=40),
        do("members.replace", "hamburg"),
        do("faults.forbid", "hamburg", "broker", "everything", pause=40),
        seed=seed,
        lagging=True,
        parts=SERVICES,
    )


@pytest.mark.parametrize("seed", [83140, 1, 2])
def test_nothing_of_a_replaced_cluster_is_answered_when_the_new_one_does_not_start(
    seed: int,
) -> None:
    play(
        do("services.offer", "bergen", "web", False, pause=1),
        do("members.replace", "bergen"),
        do("faults.kill", "bergen", pause=40),
        seed=seed,
        parts=SERVICES,
    )


@pytest.mark.parametrize("seed", [83144, 1])
def test_a_cluster_that_dies_before_its_lease_is_made_anew_may_be_answered(seed: int) -> None:
    play(
        do("services.offer", "lubeck", "web", False, pause=1),
        do("members.lose_namespace", 60),
        do("faults.kill", "lubeck", pause=70.01),
        seed=seed,
        parts=SERVICES,
    )


@pytest.mark.parametrize("lagging", [False, True])
@pytest.mark.parametrize("restore", ["faults.restore", "faults.restore_forward"])
def test_a_broker_restored_to_when_a_cluster_had_just_joined_keeps_it_while_it_lives(
    restore: str, lagging: bool
) -> None:
    since_then = (
        do("services.offer", "hamburg", "db", True, pause=40),
        do("members.replace", "hamburg"),
        do("faults.back_up", "broker", pause=40),
        do(restore, "broker", 0),
    )
    play(*since_then, do("faults.restart", "lubeck", pause=40), lagging=lagging, parts=SERVICES)
    play(*since_then, do("faults.kill", "hamburg", pause=120), lagging=lagging, parts=SERVICES)


def test_a_dead_cluster_does_not_return_when_our_own_lease_is_made_anew() -> None:
    """71086: an old Lease is compared with our own, which is missing in the first list."""
    play(
        do("services.offer", "hamburg", "web", False, pause=1),
        do("faults.stop", "lubeck"),
        do("faults.cut", "hamburg", "broker", pause=40),
        do("members.replace", "lubeck", pause=31.22),
        seed=71086,
        lagging=True,
        parts=parts_named(["services", "members"]),
    )


@pytest.mark.parametrize("seed", [52354, 52358, 52376])
def test_a_supervisor_that_stood_still_while_the_other_was_demoted_takes_no_endpoints_away(
    seed: int,
) -> None:
    """It leads again, by watches that are late; with the last seed a ClusterIP changed, too."""
    play(
        do("faults.stop", "hamburg"),
        do("federated.join", "hamburg", "shop-web", pause=40),
        do("federated.demote", "lubeck", "members", pause=25.01),
        seed=seed,
        lagging=True,
        parts=parts_named(["services", "federated"]),
    )


@pytest.mark.parametrize("seed", [82052, 1])
def test_what_left_goes_although_the_lease_of_a_restored_member_is_that_of_an_older_leader(
    seed: int,
) -> None:
    play(
        do("federated.join", "bergen", "shop-web"),
        do("faults.stall", "lubeck", 20),
        do("faults.kill", "hamburg", pause=40),
        do("faults.restore", "lubeck", 2, pause=40),
        do("federated.demote", "lubeck", "claim"),
        do("faults.restore_forward", "bergen", 3, pause=40),
        seed=seed,
        parts=parts_named(["federated", "policies"]),
    )


@pytest.mark.parametrize("seed", [76006, 1])
def test_what_left_goes_also_where_the_clock_of_a_supervisor_went_back(seed: int) -> None:
    play(
        do("federated.join", "bergen", "shop-web"),
        do("faults.jump_clock", "lubeck", -3600, pause=40),
        do("federated.leave", "bergen", "shop-web", pause=1),
        seed=seed,
        lagging=True,
        parts=parts_named(["federated", "policies"]),
    )


def test_an_export_that_nobody_could_know_of_keeps_no_clusterset_ip() -> None:
    """Its agent is dead since before it was made, and a restore takes the other export away."""
    play(
        do("services.offer", "hamburg", "db", False),
        do("services.set_profile", "kep-1645"),
        do("faults.kill", "lubeck"),
        do("services.offer", "lubeck", "db", False),
        do("faults.restore_forward", "hamburg", 3, pause=1),
        seed=52417,
        lagging=True,
        parts=SERVICES,
    )


def test_an_agent_that_starts_after_its_writes_were_refused_writes_nothing() -> None:
    """While its Lease cannot be renewed another leads its cluster, and gives it back later."""
    play(
        do("networks.run", "p2", "field", pause=25),
        do("faults.forbid", "lubeck", "lubeck", "writes", pause=40),
        seed=53007,
        lagging=True,
        parts=parts_named(["federated", "networks"]),
    )


def test_a_dead_cluster_stays_out_where_the_brokers_clock_was_set_back_and_a_reader_starts() -> (
    None
):
    play(
        do("services.offer", "hamburg", "db", False, pause=1),
        do("faults.jump_clock", "broker", -3600),
        do("faults.kill", "hamburg", pause=40),
        do("faults.restart", "lubeck", pause=40),
        parts=SERVICES,
    )


def test_replicas_start_where_the_clock_of_their_cluster_is_set_right_meanwhile() -> None:
    play(
        do("statefulsets.launch", 3, pause=1),
        do("faults.jump_clock", "hamburg", 3600),
        do("statefulsets.delete_share", "hamburg", pause=0.2),
        seed=61205,
        lagging=True,
        parts=parts_named(["services", "statefulsets"]),
    )


def test_replicas_of_a_lost_set_run_on_where_one_of_its_name_is_orphaned_before_it_has_shares() -> (
    None
):
    play(
        do("statefulsets.launch", 3, pause=1),
        do("faults.restore_forward", "broker", 2),
        do("statefulsets.launch", 3, pause=20),
        do("statefulsets.orphan"),
        seed=65116,
        parts=parts_named(["services", "statefulsets"]),
    )


def test_hosts_follow_what_is_served_where_a_demoted_leader_has_left_only_its_lease() -> None:
    play(
        do("gslb.serve", "lubeck"),
        do("gslb.promote", "bergen"),
        do("faults.restart_server", "lubeck"),
        do("faults.kill", "lubeck", pause=5),
        do("gslb.demote", "bergen"),
        do("faults.restore", "hamburg", 0),
        do("gslb.serve", "hamburg"),
        seed=66600,
        parts=parts_named(["gslb"]),
    )


def test_a_cluster_that_dies_after_its_clock_was_set_back_is_left_out_in_time() -> None:
    play(
        do("services.offer", "bergen", "web", False),
        do("faults.jump_clock", "bergen", -3600, pause=1),
        do("faults.stall", "bergen", 60),
        seed=50466280,
    )


def test_endpoints_stand_while_nobody_leads_the_restored_member_whose_user_joins_again() -> None:
    play(
        do("federated.join", "lubeck", "shop-fish", pause=1),
        do("faults.restore", "lubeck", 3, pause=20.11),
        do("faults.stop", "lubeck"),
        do("federated.join", "lubeck", "shop-fish", pause=40),
        seed=50462980,
    )


def test_what_a_cluster_began_to_run_as_its_set_was_orphaned_runs_on() -> None:
    play(
        do("statefulsets.launch", 1, pause=40),
        do("statefulsets.scale", 6, pause=0.1),
        do("statefulsets.orphan"),
        do("faults.stall", "lubeck", 60),
        seed=50458583,
        lagging=True,
        parts=parts_named(["services", "federated", "statefulsets", "networks"]),
    )


def test_a_name_server_that_starts_does_not_believe_a_leader_who_was_cut_off_long_ago() -> None:
    play(
        do("networks.run", "p1", "lab", pause=40),
        do("gslb.serve", "lubeck", pause=20.11),
        do("faults.forbid", "lubeck", "hamburg", "everything", pause=40),
        do("faults.crash", 13),
        seed=50457566,
        lagging=True,
        parts=parts_named(["federated", "policies", "gslb", "networks"]),
    )


def test_an_address_need_not_outlive_the_service_that_its_user_deletes_for_a_moment() -> None:
    play(
        do("services.serve", "bergen", "web", "http"),
        do("services.export", "bergen", "web"),
        do("services.set_profile", "kep-1645", pause=1),
        do("services.unserve", "bergen", "web"),
        do("services.offer", "bergen", "web", False),
        seed=50454352,
        parts=parts_named(["services", "members", "federated", "policies"]),
    )


def test_a_report_of_a_set_that_is_gone_ends_also_where_it_was_listed_before_the_rest() -> None:
    play(
        do("statefulsets.launch", 3, pause=21),
        do("statefulsets.remove"),
        do("faults.stall", "hamburg", 12),
        do("faults.late_watches", "hamburg", "broker"),
        do("faults.crash", 9, pause=1),
        seed=50454171,
        lagging=True,
        parts=parts_named(["services", "federated", "statefulsets"]),
    )
