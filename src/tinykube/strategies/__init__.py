"""The rules of each built-in kind."""

from tinykube.crds import CRD_RULES, CRDS
from tinykube.resources import Resource
from tinykube.strategies import endpoints, others, pods, services, workloads
from tinykube.strategy import COMMON, Rules

_ADMISSION = "admissionregistration.k8s.io"
_NETWORKING = "networking.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_RULES: dict[str, Rules] = {
    CRDS: CRD_RULES,
    "configmaps": others.CONFIG_MAP_RULES,
    "endpoints": others.ENDPOINTS_RULES,
    "events": others.EVENT_RULES,
    "namespaces": others.NAMESPACE_RULES,
    "nodes": others.NODE_RULES,
    "persistentvolumeclaims": others.CLAIM_RULES,
    "persistentvolumes": others.VOLUME_RULES,
    "pods": pods.POD_RULES,
    "secrets": others.SECRET_RULES,
    "serviceaccounts": others.ACCOUNT_RULES,
    "services": services.SERVICE_RULES,
    "endpointslices.discovery.k8s.io": endpoints.SLICE_RULES,
    "deployments.apps": workloads.DEPLOYMENT_RULES,
    "replicasets.apps": workloads.REPLICA_SET_RULES,
    "statefulsets.apps": workloads.STATEFUL_SET_RULES,
    "daemonsets.apps": workloads.DAEMON_SET_RULES,
    "jobs.batch": workloads.JOB_RULES,
    "cronjobs.batch": workloads.CRON_JOB_RULES,
    "leases.coordination.k8s.io": others.LEASE_RULES,
    "poddisruptionbudgets.policy": others.BUDGET_RULES,
    "priorityclasses.scheduling.k8s.io": others.PRIORITY_RULES,
    "storageclasses.storage.k8s.io": others.STORAGE_CLASS_RULES,
    f"ingresses.{_NETWORKING}": others.COUNTED_RULES,
    f"ingressclasses.{_NETWORKING}": others.COUNTED_RULES,
    f"networkpolicies.{_NETWORKING}": others.POLICY_RULES,
    f"servicecidrs.{_NETWORKING}": others.SERVICE_RANGE_RULES,
    f"ipaddresses.{_NETWORKING}": others.ADDRESS_RULES,
    f"roles.{_RBAC}": others.ROLE_RULES,
    f"clusterroles.{_RBAC}": others.ROLE_RULES,
    f"rolebindings.{_RBAC}": others.BINDING_RULES,
    f"clusterrolebindings.{_RBAC}": others.BINDING_RULES,
    f"mutatingwebhookconfigurations.{_ADMISSION}": others.WEBHOOK_RULES,
    f"validatingwebhookconfigurations.{_ADMISSION}": others.WEBHOOK_RULES,
    f"validatingadmissionpolicies.{_ADMISSION}": others.VALIDATING_POLICY_RULES,
    f"validatingadmissionpolicybindings.{_ADMISSION}": others.VALIDATING_POLICY_RULES,
}
_CUSTOM = Rules(generation=True, unconditional=False)


def rules_of(resource: Resource) -> Rules:
    """The rules for one resource's objects."""
    if resource.custom is not None:
        return _CUSTOM
    return _RULES.get(resource.store, COMMON)
