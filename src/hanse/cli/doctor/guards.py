"""Findings about admission policies: those that hold members or supervisors, old ones; pure."""

from collections.abc import Iterable, Iterator, Mapping

from hanse import app
from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import DEPLOYMENTS, GUARDS, POLICIES, SUPERVISORS, members_of
from hanse.cli.doctor.updates import VERSION, minor_version
from hanse.cli.fleet import ClusterRead
from hanse.features.federation.manifests import SUPERVISOR_LABEL, supervisor_policies
from hanse.features.networks.admission_policies import POOLS
from hanse.features.services.manifests import broker_policies
from hanse.model.broker_namespace import shared_namespace
from hanse.model.findings import Ref
from hanse.model.kinds.admission import ValidatingAdmissionPolicyBinding
from hanse.model.kinds.federation import Federation
from hanse.model.manifests import Manifest
from hanse.model.naming import AGENT
from hanse.model.objects import ClusterId
from hanse.model.summaries import first_of


def check_guards(read: ClusterRead, contexts: Mapping[ClusterId, str]) -> Iterator[Finding]:
    """BrokerUnguarded, MemberUnguarded: admission policies that are missing or do not deny.

    Checked are namespaces with ServiceAccounts of members, and clusters with a Federation and
    ServiceAccounts of supervisors; nothing if policies or bindings were not listed.
    """
    if not {GUARDS, POLICIES} <= {*read.lists}:
        return
    for namespace in sorted({shared_namespace(one.namespace) for one in members_of(read)}):
        rules = (rule for access in app.broker_access() for rule in access.rules)
        missing = _not_denying(broker_policies(rules, namespace), read)
        if missing:
            yield Finding(
                read.context,
                f"{len(missing)} admission policies of {namespace} are missing or do not deny "
                f"({first_of(missing)}), so that a member can write what is another's",
                f"hanse broker init --context {read.context} --namespace {namespace}",
                "BrokerUnguarded",
                Ref(ValidatingAdmissionPolicyBinding.kind.name, missing[0]),
                pasteable=True,
            )
    supervisors = sorted(one.metadata.labels[SUPERVISOR_LABEL] for one in read.listed(SUPERVISORS))
    federations = sorted(one.name for one in read.objects(Federation))
    if not supervisors or not federations:
        return
    missing = _not_denying(supervisor_policies(app.supervisor_rules(), read.cluster), read)
    if missing:
        yield Finding(
            read.context,
            f"{len(missing)} admission policies for supervisors are missing or do not deny "
            f"({first_of(missing)}), so that {', '.join(supervisors)} can write what is of users",
            f"hanse join --federation {federations[0]} --cluster-id {read.cluster} "
            f"--context {read.context} --supervisor {contexts.get(supervisors[0], supervisors[0])}",
            "MemberUnguarded",
            Ref(ValidatingAdmissionPolicyBinding.kind.name, missing[0]),
            pasteable=True,
        )


def check_old_policies(read: ClusterRead) -> Iterator[Finding]:
    """AdmissionPolicyOld: networks have policies of their own for their addresses, as of 0.1.0.

    There is one for all networks now. Agents may change that one alone, so that the old ones stay
    with the namespaces that tenants had. One finding for all; nothing while an agent of 0.1 runs,
    by its label.
    """
    agents = (one for one in read.listed(DEPLOYMENTS) if one.name == AGENT)
    if any(minor_version(one.metadata.labels.get(VERSION, "")) == (0, 1) for one in agents):
        return
    old = sorted(one.name for one in read.listed(GUARDS) if one.name.startswith(f"{POOLS[:-1]}-"))
    if old:
        yield Finding(
            read.context,
            f"{len(old)} networks have a policy for their addresses that 0.1.0 wrote and nobody "
            f"updates ({first_of(old)}): Services in new namespaces of a tenant get no address",
            f"kubectl --context {read.context} delete "
            f"validatingadmissionpolicybinding,validatingadmissionpolicy {' '.join(old)}",
            "AdmissionPolicyOld",
            Ref(ValidatingAdmissionPolicyBinding.kind.name, old[0]),
            pasteable=True,
        )


def _not_denying(expected: Iterable[Manifest], read: ClusterRead) -> list[str]:
    """The names of expected policies that are missing, or that no binding of their name denies by.

    Sorted. What policies validate is not compared: a later version of this program may differ.
    """
    policies = {one.name for one in read.listed(POLICIES)}
    denying = {
        one.name
        for one in read.listed(GUARDS)
        if one.spec.get("policyName") in policies and "Deny" in one.spec["validationActions"]
    }
    return sorted({one.name for one in expected} - denying)
