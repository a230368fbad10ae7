"""What people are told about configuration, policies and host rules, on the objects themselves."""

from collections.abc import Iterator, Sequence

from hanse.features.gslb.avi import CONTROLLER
from hanse.features.gslb.configuration import (
    InvalidConfiguration,
    ValidConfiguration,
    list_deployment_policies,
    read_configuration,
    read_deployment_policy,
)
from hanse.features.gslb.diagnostics import (
    MAX_WARNINGS,
    Diagnostic,
    diagnose_objects,
    diagnose_writes,
)
from hanse.features.gslb.hosts import cluster_of_context, is_unobserved
from hanse.features.gslb.leadership import Leading
from hanse.features.gslb.options import GslbOptions
from hanse.model.kinds.gslb import (
    NAMESPACE,
    GlobalDeploymentPolicy,
    GlobalDeploymentPolicySpec,
    GSLBConfig,
    GSLBHostRule,
)
from hanse.model.objects import ClusterObjectRef, Wire, object_ref
from hanse.model.plan import EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot

MAX_STATE_LENGTH = 1024
MAX_ERROR_LENGTH = 4096
"""Letters that a status may have: what is longer would not be told at all."""

ACCEPTED = "success: the configuration is in use"


def plan_policy_status(leading: Leading, snapshot: Snapshot, options: GslbOptions) -> Plan:
    """Whether the configuration and the policy are in use, and what is chosen in vain."""
    policy = read_deployment_policy(snapshot, named_monitors=options.probes)
    patches = list(_told_of_config(snapshot, avi="avi" in options.providers))
    events: list[EventRequest] = []
    for said in list_deployment_policies(snapshot):
        place = ClusterObjectRef(snapshot.local, object_ref(said))
        status: Wire = {
            "errorStatus": policy.error[:MAX_ERROR_LENGTH]
            if isinstance(policy, InvalidConfiguration)
            else None
        }
        if policy is not None and not isinstance(policy, InvalidConfiguration):
            faults = [
                *diagnose_objects(policy, leading, snapshot),
                *diagnose_writes(leading, snapshot),
            ]
            status["warnings"] = _warnings(faults, said, policy, leading, snapshot)
            events += _news(faults, said, place)
        patches.append(Patch(place, {"status": status}, subresource="status"))
    return Plan(patches=tuple(patches), events=tuple(events))


def plan_without_warnings(snapshot: Snapshot) -> Plan:
    """Who does not lead warns of nothing."""
    warned = [policy for policy in list_deployment_policies(snapshot) if policy.status.warnings]
    change: Wire = {"status": {"warnings": None}}
    return Plan(
        patches=tuple(
            Patch(ClusterObjectRef(snapshot.local, object_ref(p)), change, subresource="status")
            for p in warned
        )
    )


def _told_of_config(snapshot: Snapshot, *, avi: bool) -> Iterator[Patch]:
    config = read_configuration(snapshot)
    state = (
        f"error: {config.error}"
        if isinstance(config, InvalidConfiguration)
        else _state(config, avi=avi)
    )
    for one in snapshot.in_namespace(snapshot.local, GSLBConfig, NAMESPACE):
        change = {"status": {"state": state[:MAX_STATE_LENGTH]}}
        yield Patch(ClusterObjectRef(snapshot.local, object_ref(one)), change, subresource="status")


def _state(config: ValidConfiguration, *, avi: bool) -> str:
    """That it is in use, and which of it is not."""
    spec = config.object.spec
    said = [ACCEPTED]
    if spec.use_custom_global_fqdn:
        said.append("global host names are those that HostRules of ako.vmware.com give")
    if spec.refresh_interval and not avi:
        said.append("spec.refreshInterval is for provider avi alone: all else is seen at once")
    if spec.log_level != "INFO":
        said.append("spec.logLevel holds for all that `hanse agent` logs here")
    return "; ".join(said)


def _warnings(
    faults: Sequence[Diagnostic],
    said: GlobalDeploymentPolicy,
    policy: GlobalDeploymentPolicySpec,
    leading: Leading,
    snapshot: Snapshot,
) -> list[str] | None:
    """All faults, in the policy's order of clusters; of one that cannot be seen, as before."""
    found = [fault.sentence for fault in faults]
    for match in policy.match_clusters:
        if is_unobserved(cluster_of_context(match.cluster, leading, snapshot), snapshot):
            found += [w for w in said.status.warnings if w.startswith(f"{match.cluster}: ")]
    more = len(found) - MAX_WARNINGS
    return [*found[:MAX_WARNINGS], *([f"and {more} more"] if more > 0 else [])] or None


def _news(
    faults: Sequence[Diagnostic], said: GlobalDeploymentPolicy, place: ClusterObjectRef
) -> Iterator[EventRequest]:
    """An Event on each object of which something is told for the first time."""
    for fault in faults[:MAX_WARNINGS]:
        if fault.place.where != CONTROLLER and fault.sentence not in said.status.warnings:
            yield EventRequest(
                fault.place, "NotBalanced", fault.sentence, "Warning", recorded_with=place
            )


def rule_status_patch(rule: GSLBHostRule, error: str, snapshot: Snapshot) -> Patch:
    """Whether a host rule is in use."""
    status = {"status": "Rejected", "error": error[:MAX_ERROR_LENGTH]} if error else _ACCEPTED
    return Patch(
        ClusterObjectRef(snapshot.local, object_ref(rule)), {"status": status}, subresource="status"
    )


_ACCEPTED = {"status": "Accepted", "error": None}
