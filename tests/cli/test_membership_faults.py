"""Faults of members and supervisors: told by all, mended by what is printed."""

import os
import shutil
from pathlib import Path

import pytest

from hanse.model.kinds.federation import SUPERVISOR
from tests.cli.cluster_faults import SHORT_LEASES
from tests.cli.faces import Faces
from tests.cli.fault_table import FUNCTIONS, OBSERVERS, Fault
from tests.cli.programs import running
from tests.cli.test_faults import nothing_is_wrong, play

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl"),
    pytest.mark.skipif(not os.environ.get("HANSE_FAULTS"), reason="a minute: make faults"),
]

INTERRUPTED_LEAVE = """
hanse local stop agent bergen
hanse leave --broker broker --cluster-id bergen --context bergen &
k broker -n hanse-broker wait clustermember bergen --timeout=60s \
    --for=jsonpath='{.status.phase}'=Leaving
kill $!
"""
JOIN_AGAIN = "hanse join --broker broker --cluster-id bergen --context bergen"
UNFINISHED = ("bergen is leaving broker, and has not finished",)  # MemberLeaving

LEAVING = Fault(
    "AgentSilent Cluster bergen",
    INTERRUPTED_LEAVE
    + """
    began=$(date -u -d '-5 min' +%Y-%m-%dT%H:%M:%SZ)
    k broker -n hanse-broker patch clustermember bergen --subresource status --type merge \
        -p "{\\"status\\":{\\"since\\":\\"$began\\"}}"
    """,
    causes=True,
    follows=UNFINISHED,
    remembered=UNFINISHED,
    seen_as={"metrics": "ClusterSilent Cluster bergen", "events": "ClusterSilent"},
    restore=JOIN_AGAIN,
)
REMAINING = Fault(
    "AccountRemains ClusterMember hanse-broker/bergen in broker",
    INTERRUPTED_LEAVE + "hanse local start agent bergen",
    unseen_by=OBSERVERS,
    restore=JOIN_AGAIN,
)
SUPERVISED = Fault(
    f"TooManySupervisors ClusterClaim {SUPERVISOR} in oslo",
    """
    for c in bergen visby riga oslo; do
    hanse join --federation local --cluster-id $c --context $c --supervises --supervisor lubeck
    done
    """,
    unseen_by=OBSERVERS,
)


def test_faults_of_members_are_told_by_all_and_mended_by_what_is_printed(tmp_path: Path) -> None:
    clusters = "lubeck,hamburg,bergen,visby,riga,oslo"
    with running(tmp_path, "--clusters", clusters, "--no-sample") as fleet:
        faces = Faces(fleet, tmp_path)
        faces.shell(FUNCTIONS + SHORT_LEASES)

        for fault in (LEAVING, REMAINING, SUPERVISED):
            play(faces, (fault,))

        nothing_is_wrong(faces)
