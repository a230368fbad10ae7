"""The statuses of GSLBConfig, GlobalDeploymentPolicy and GSLBHostRule, and their Events."""

from collections.abc import Iterator, Sequence

from hanse.features.gslb.avi import CONTROLLER, controller_error
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
    diagnose_monitors,
    diagnose_objects,
    diagnose_owners,
    diagnose_writes,
    diagnose_zones,
)
from hanse.features.gslb.hosts import cluster_of_context, is_unobserved
from hanse.features.gslb.leadership import Leading
from hanse.features.gslb.notes import policy_notes, rule_notes
from hanse.features.gslb.options import GslbOptions
from hanse.model.kinds.gslb import (
    NAMESPACE,
    GlobalDeploymentPolicy,
    GlobalDeploymentPolicySpec,
    GSLBConfig,
    GSLBHostRule,
)
from hanse.model.objects import ClusterObjectRef, Object, Wire, object_ref
from hanse.model.plan import EventRequest, Patch, Plan
from hanse.model.snapshot import Snapshot

MAX_STATE_LENGTH = 1024
MAX_ERROR_LENGTH = 4096
"""The API refuses statuses with longer texts."""

ACCEPTED = "success: the configuration is in use"


def plan_policy_status(leading: Leading, snapshot: Snapshot, options: GslbOptions) -> Plan:
    """Status patches of GSLBConfig and policies, with warnings, and Events for new warnings.

    An invalid policy gets its error, and its warnings stay as they are.
    """
    policy = read_deployment_policy(snapshot, named_monitors=options.probes)
    patches = list(_config_patches(snapshot, avi="avi" in options.providers))
    events: list[EventRequest] = []
    for current in list_deployment_policies(snapshot):
        ref = ClusterObjectRef(snapshot.local, object_ref(current))
        status: Wire = {
            "errorStatus": policy.error[:MAX_ERROR_LENGTH]
            if isinstance(policy, InvalidConfiguration)
            else None
        }
        if policy is not None and not isinstance(policy, InvalidConfiguration):
            diagnostics = [
                *diagnose_objects(policy, leading, snapshot),
                *diagnose_writes(leading, snapshot),
                *diagnose_owners(leading, snapshot),
                *diagnose_zones(options.zones, snapshot),
                *diagnose_monitors(policy, options, snapshot),
            ]
            notes = [
                Diagnostic(ref, note) for note in policy_notes(policy, leading, options, snapshot)
            ]
            diagnostics = [*notes, *diagnostics]
            status["warnings"] = _warnings(diagnostics, current, policy, leading, snapshot)
            events += _warning_events(diagnostics, current, ref)
        patches.append(Patch(ref, {"status": status}, subresource="status"))
    return Plan(patches=tuple(patches), events=tuple(events))


def misplaced_patches(snapshot: Snapshot) -> Iterator[Patch]:
    """Status patches that report GSLBConfigs and policies here outside of the GSLB namespace."""
    for config in snapshot.all(snapshot.local, GSLBConfig):
        if config.metadata.namespace != NAMESPACE:
            yield _status_patch(config, {"state": f"error: {misplaced_message(config)}"}, snapshot)
    for policy in snapshot.all(snapshot.local, GlobalDeploymentPolicy):
        if policy.metadata.namespace != NAMESPACE:
            yield _status_patch(policy, {"errorStatus": misplaced_message(policy)}, snapshot)


def misplaced_message(obj: Object) -> str:
    """The message that an object is not used, because of its namespace."""
    kind, place = type(obj).kind.name, obj.metadata.namespace
    return (
        f"metadata.namespace: a {kind} in {place} is not used; create it in {NAMESPACE} and delete "
        "this one"
    )


def _status_patch(obj: Object, status: Wire, snapshot: Snapshot) -> Patch:
    """The status patch of a local object."""
    ref = ClusterObjectRef(snapshot.local, object_ref(obj))
    return Patch(ref, {"status": status}, subresource="status")


def plan_without_warnings(snapshot: Snapshot) -> Plan:
    """Remove the warnings in the status of policies, in a cluster that does not lead."""
    warned = [policy for policy in list_deployment_policies(snapshot) if policy.status.warnings]
    return Plan(patches=tuple(_status_patch(p, {"warnings": None}, snapshot) for p in warned))


def _config_patches(snapshot: Snapshot, *, avi: bool) -> Iterator[Patch]:
    """Patches of `status.state` of every GSLBConfig here: the error, or how its fields are used.

    With provider avi, what is wrong with the controller is an error, too.
    """
    config = read_configuration(snapshot)
    error = config.error if isinstance(config, InvalidConfiguration) else ""
    if avi and not error:
        error = controller_error(snapshot)
    if error or isinstance(config, InvalidConfiguration):
        state = f"error: {error}"
    else:
        state = _config_state(config, avi=avi)
    for obj in snapshot.in_namespace(snapshot.local, GSLBConfig, NAMESPACE):
        yield _status_patch(obj, {"state": state[:MAX_STATE_LENGTH]}, snapshot)


def _config_state(config: ValidConfiguration, *, avi: bool) -> str:
    """The state of a valid configuration: that it is in use, and how some fields are used.

    `avi` says whether that provider is used.
    """
    spec = config.object.spec
    current = [ACCEPTED]
    if spec.use_custom_global_fqdn:
        current.append("global host names are those that HostRules of ako.vmware.com give")
    if spec.refresh_interval and not avi:
        current.append("spec.refreshInterval is for provider avi alone: all else is seen at once")
    if spec.log_level != "INFO":
        current.append("spec.logLevel holds for all that `hanse agent` logs here")
    return "; ".join(current)


def _warnings(
    diagnostics: Sequence[Diagnostic],
    current: GlobalDeploymentPolicy,
    policy: GlobalDeploymentPolicySpec,
    leading: Leading,
    snapshot: Snapshot,
) -> list[str] | None:
    """The messages of diagnostics; for an unobserved cluster those in the present status are kept.

    Of more than MAX_WARNINGS the rest is one text, `and N more`; None, which removes the list,
    without any.
    """
    messages = [diagnostic.message for diagnostic in diagnostics]
    for match in policy.match_clusters:
        if is_unobserved(cluster_of_context(match.cluster, leading, snapshot), snapshot):
            messages += [w for w in current.status.warnings if w.startswith(f"{match.cluster}: ")]
    omitted = len(messages) - MAX_WARNINGS
    return [*messages[:MAX_WARNINGS], *([f"and {omitted} more"] if omitted > 0 else [])] or None


def _warning_events(
    diagnostics: Sequence[Diagnostic], current: GlobalDeploymentPolicy, ref: ClusterObjectRef
) -> Iterator[EventRequest]:
    """A Warning Event for each diagnostic whose message the policy's status does not have yet.

    Only of the first MAX_WARNINGS, on the object of the diagnostic; none for objects at the Avi
    controller.
    """
    for diagnostic in diagnostics[:MAX_WARNINGS]:
        if diagnostic.ref.where != CONTROLLER and diagnostic.message not in current.status.warnings:
            yield EventRequest(
                diagnostic.ref, "NotBalanced", diagnostic.message, "Warning", recorded_with=ref
            )


def rule_status_patch(
    rule: GSLBHostRule, error: str, options: GslbOptions, snapshot: Snapshot
) -> Patch:
    """The patch of a host rule's status: accepted with warnings, or rejected with an error."""
    status: Wire = {"status": "Rejected", "error": error[:MAX_ERROR_LENGTH], "warnings": None}
    if not error:
        status = {**_ACCEPTED, "warnings": list(rule_notes(rule.spec, options)) or None}
    return _status_patch(rule, status, snapshot)


_ACCEPTED = {"status": "Accepted", "error": None}
