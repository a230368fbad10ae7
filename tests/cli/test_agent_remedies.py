"""What mends an agent that is missing, lacks rights, or is old, and takes nothing else."""

import pytest

from hanse import __version__
from hanse.app.views import examine
from hanse.cli.doctor.lists import DEPLOYMENTS
from hanse.cli.doctor.updates import update_agent_command
from hanse.cli.fleet import ACCOUNT
from hanse.features.fleet.links import link_findings
from hanse.kube.listed_objects import ListedObjects
from hanse.kube.watch_events import Listed
from hanse.model.facts import AgentFeatures, AgentLeaseRefused, ClusterState, Facts, Phase, Role
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.apps import Deployment, DeploymentSpec
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.federation import Federation
from hanse.model.objects import Meta
from hanse.model.snapshot import Snapshot
from tests.support.fleet_reads import NOW, findings, lease, read

ONE = "lubeck"
FEDERATION = Federation(metadata=Meta(name="league"))
FEDERATED = {(ONE, Federation.kind): [ListedObjects(Listed((FEDERATION,), "1"))]}


def agent_deployment(replicas: int) -> Deployment:
    meta = Meta(name="hanse-agent", namespace="hanse-system")
    return Deployment(metadata=meta, spec=DeploymentSpec(replicas=replicas))


@pytest.mark.parametrize(
    ("deployments", "command"),
    [
        ((), "hanse manifests --cluster-id lubeck | kubectl --context lubeck apply -f -"),
        (
            (agent_deployment(2),),
            "kubectl --context lubeck -n hanse-system rollout restart deployment/hanse-agent",
        ),
        (
            (agent_deployment(0),),
            "kubectl --context lubeck -n hanse-system scale deployment/hanse-agent --replicas=1",
        ),
        (None, None),
    ],
    ids=["nothing is installed", "one that fails", "one of no replicas", "nobody knows"],
)
def test_an_agent_that_never_ran_is_started_without_replacing_what_is_installed(
    deployments: tuple[Deployment, ...] | None, command: str | None
) -> None:
    found = read(ONE, agent=None)
    if deployments is not None:
        found.lists[DEPLOYMENTS] = Listed(deployments, "1")

    (missing,) = findings(found, local=False)

    assert missing.code == "AgentMissing"
    assert missing.remedy.commands == ((command,) if command else ())
    assert command or missing.remedy.ask


def test_an_agent_whose_deployment_was_deleted_is_installed_again_with_its_features() -> None:
    found = read(ONE, agent=600, features=("services", "gslb"))
    found.lists[DEPLOYMENTS] = Listed((), "1")

    (silent,) = findings(found, local=False)

    assert silent.code == "AgentSilent"
    (command,) = silent.remedy.commands
    install = "hanse manifests --cluster-id lubeck --features services,gslb"
    assert command == f"{install} | kubectl --context lubeck apply -f -"


@pytest.mark.parametrize(
    ("namespace", "missing"),
    [
        ("default", "namespace hanse-system"),
        ("hanse-system", "Lease hanse-system/hanse-agent"),
    ],
    ids=["the namespace", "only the Lease"],
)
def test_a_local_agent_without_lease_is_restarted_and_what_is_gone_is_named(
    namespace: str, missing: str
) -> None:
    found = read(ONE, Namespace(metadata=Meta(name=namespace)), agent=None)

    (told,) = findings(found)

    assert told.code == "AgentMissing"
    assert f"no agent works in {ONE}: there is no {missing}" in told.summary
    assert told.remedy.commands == (
        f"hanse local stop agent {ONE}",
        f"hanse local start agent {ONE}",
    )


def test_an_agent_says_itself_that_it_lacks_rights_and_is_not_taken_for_unreachable() -> None:
    roles = frozenset({Role.LOCAL})
    facts = Facts()
    facts.put(
        ClusterState(ONE, roles, Phase.UNREACHABLE, NOW, "may not read", forbidden=("networks",))
    )
    facts.put(AgentFeatures(ONE, ("services", "networks")))

    (found,) = examine(MultiClusterSnapshot({ONE: Snapshot({}, facts, NOW, ONE)})).findings

    (of_a_person,) = findings(
        read(ONE, agent_forbidden=("networks",), features=("services", "networks"))
    )
    assert (found.code, found.subject) == ("AgentForbidden", of_a_person.subject)
    assert (found.summary, found.remedy) == (of_a_person.summary, of_a_person.remedy)


def test_an_agent_that_may_not_renew_its_lease_says_that_it_lacks_rights() -> None:
    message = (
        'leases.coordination.k8s.io "hanse-agent" is forbidden: User "system:serviceaccount:'
        'hanse-system:hanse-agent" cannot patch resource "leases"'
    )
    facts = Facts()
    facts.put(ClusterState(ONE, frozenset({Role.LOCAL}), Phase.SYNCED, NOW))
    facts.put(AgentFeatures(ONE, ("services",)))
    facts.put(AgentLeaseRefused(ONE, "hanse-system", message, NOW))

    (found,) = examine(MultiClusterSnapshot({ONE: Snapshot({}, facts, NOW, ONE)})).findings

    (of_a_person,) = findings(
        read(ONE, agent=60, agent_forbidden=("leases",), features=("services",))
    )
    assert (found.code, found.summary) == ("AgentForbidden", of_a_person.summary)
    assert found.remedy == of_a_person.remedy


@pytest.mark.parametrize("local", [True, False])
def test_an_agent_whose_account_is_gone_is_told_alike_by_itself_and_by_a_person(
    local: bool,
) -> None:
    facts = Facts()
    roles = frozenset({Role.LOCAL})
    facts.put(ClusterState(ONE, roles, Phase.UNREACHABLE, NOW, "it says no", rejected=True))
    facts.put(AgentFeatures(ONE, ("services",)))
    by_agent = {ONE: Snapshot({}, facts, NOW, ONE)}
    without = read(ONE, agent=600, features=("services",))
    without.lists[ACCOUNT] = Listed((), "1")

    (by_itself,) = examine(MultiClusterSnapshot(by_agent, local=local)).findings
    (by_a_person,) = findings(without, local=local)

    assert by_itself.code == by_a_person.code == "AgentMissing"
    assert "refuses the credentials of its agent" in by_itself.summary
    assert (by_itself.summary, by_itself.remedy) == (by_a_person.summary, by_a_person.remedy)
    kubectl = f"kubectl --context {ONE}"
    rights = f"hanse manifests --cluster-id {ONE} --features services --rights"
    assert by_itself.remedy.commands == (
        (f"hanse local stop agent {ONE}", f"hanse local start agent {ONE}")
        if local
        else (
            f"{rights} | {kubectl} apply -f -",
            f"{kubectl} -n hanse-system rollout restart deployment/hanse-agent",
        )
    )
    alive = read(ONE, features=("services",))  # it runs elsewhere, with credentials of its own
    alive.lists[ACCOUNT] = Listed((), "1")
    assert findings(alive, local=local) == ()


def test_an_agent_whose_account_is_gone_is_told_also_if_its_lease_was_given_back() -> None:
    """By a second one that ran for a while with credentials of its own."""
    free = read(ONE, lease("hanse-agent", "hanse-system", "", 600), agent=None)
    free.lists[ACCOUNT] = Listed((), "1")

    (found,) = findings(free)

    assert "refuses the credentials of its agent" in found.summary
    assert found.remedy.commands == (
        f"hanse local stop agent {ONE}",
        f"hanse local start agent {ONE}",
    )


def test_a_link_over_which_rights_are_missing_is_mended_by_joining_again() -> None:
    own = {cluster: Facts() for cluster in (ONE, "bergen")}
    for cluster, facts in own.items():
        facts.put(ClusterState(cluster, frozenset({Role.LOCAL}), Phase.SYNCED, NOW))
    member = frozenset({Role.MEMBER})
    own[ONE].put(ClusterState("bergen", member, Phase.UNREACHABLE, NOW, "no", forbidden=("pods",)))
    snapshots = {c: Snapshot(FEDERATED, facts, NOW, c) for c, facts in own.items()}

    (found,) = link_findings("bergen", MultiClusterSnapshot(snapshots))

    assert found.code == "TokenRevoked"
    assert found.remedy.commands[0].startswith(
        "hanse join --federation league --cluster-id bergen "
    )


@pytest.mark.parametrize("local", [True, False])
def test_a_link_over_a_certificate_of_another_authority_is_mended_by_joining_again(
    local: bool,
) -> None:
    facts = Facts()
    facts.put(ClusterState(ONE, frozenset({Role.LOCAL}), Phase.SYNCED, NOW))
    why = "the certificate of https://bergen:6443 is not trusted: self-signed certificate"
    member = frozenset({Role.MEMBER})
    facts.put(ClusterState("bergen", member, Phase.UNREACHABLE, NOW, why, untrusted=True))
    own = Facts()
    own.put(ClusterState("bergen", frozenset({Role.LOCAL}), Phase.SYNCED, NOW))
    snapshots = {
        ONE: Snapshot(FEDERATED, facts, NOW, ONE),
        "bergen": Snapshot({}, own, NOW, "bergen"),
    }

    (found,) = link_findings("bergen", MultiClusterSnapshot(snapshots, local=local))

    assert found.code == "LinkCut"
    assert why in found.summary
    (command,) = found.remedy.commands
    assert command.startswith("hanse join --federation league --cluster-id bergen ")


def deployment(image: str, version: str, **annotations: str) -> Deployment:
    notes = {name.replace("_", "-"): value for name, value in annotations.items()}
    meta = Meta(
        name="hanse-agent",
        namespace="hanse-system",
        labels={"app.kubernetes.io/version": version},
        annotations={f"meta.helm.sh/{name}": value for name, value in notes.items()},
    )
    pod = {"spec": {"containers": [{"name": "hanse-agent", "image": image}]}}
    return Deployment(metadata=meta, spec=DeploymentSpec(template=pod))


@pytest.mark.parametrize(
    ("image", "ours"),
    [
        (
            "registry.example:5000/team/hanse:0.0.1",
            f"registry.example:5000/team/hanse:{__version__}",
        ),
        ("registry.example/hanse@sha256:abc", f"registry.example/hanse:{__version__}"),
        ("hanse", f"hanse:{__version__}"),
    ],
)
def test_an_old_agent_gets_another_image_and_keeps_the_rest(image: str, ours: str) -> None:
    kubectl = "kubectl --context rome -n hanse-system"
    label = f"app.kubernetes.io/version={__version__}"

    assert update_agent_command("rome", deployment(image, "trunk")) == (
        f"{kubectl} set image deployment/hanse-agent hanse-agent={ours} && "
        f"{kubectl} label deployment hanse-agent {label} --overwrite"
    )


def test_a_release_of_helm_keeps_its_values() -> None:
    agent = deployment("hanse:0.0.1", "trunk", release_name="fleet", release_namespace="ops")

    command = update_agent_command("rome", agent)

    assert command.startswith('chart="$(mktemp -d)/hanse" && hanse manifests --chart "$chart" && ')
    assert command.endswith(
        'helm --kube-context rome -n ops upgrade fleet "$chart" --reset-then-reuse-values'
    )


def test_an_agent_that_is_newer_than_this_program_is_not_replaced_by_an_older_one() -> None:
    assert update_agent_command("rome", deployment("hanse:9.9.0", "9.9.0")) == ""


def test_an_external_system_that_is_not_asked_here_is_no_cluster_that_is_not_reached() -> None:
    facts = Facts()
    facts.put(ClusterState(ONE, frozenset({Role.LOCAL}), Phase.SYNCED, NOW))
    outside = frozenset({Role.OUTSIDE})
    facts.put(ClusterState("avi", outside, Phase.UNREACHABLE, NOW, "this cluster does not lead"))
    snapshot = MultiClusterSnapshot({ONE: Snapshot({}, facts, NOW, ONE)})

    assert snapshot.clusters == (ONE,)
    assert examine(snapshot).findings == ()
