"""Schedules that broke a law once, each shrunk to the steps that it took."""

import pytest

from tests.support.simulator.runner import parts_named, play
from tests.support.simulator.schedule import Step, do

SERVICES = parts_named(["services", "members"])


@pytest.mark.parametrize("restore", ["faults.restore", "faults.restore_forward"])
@pytest.mark.parametrize("pause", [40, 81.01])
def test_a_restored_broker_takes_no_answer_away(restore: str, pause: float) -> None:
    play(do("services.offer", "lubeck", "web", False, pause=pause), do(restore, "broker", 0))


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
