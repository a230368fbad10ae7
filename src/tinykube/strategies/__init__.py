"""The strategies of the built-in kinds."""

from tinykube.crds import CRD_STRATEGY, CRDS
from tinykube.resources import Resource
from tinykube.strategies import endpoints, others, pods, policies, services, workloads
from tinykube.strategy import DEFAULT_STRATEGY, Strategy

_ADMISSION = "admissionregistration.k8s.io"
_NETWORKING = "networking.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_STRATEGIES: dict[str, Strategy] = {
    CRDS: CRD_STRATEGY,
    "configmaps": others.CONFIG_MAP_STRATEGY,
    "endpoints": others.ENDPOINTS_STRATEGY,
    "events": others.EVENT_STRATEGY,
    "namespaces": others.NAMESPACE_STRATEGY,
    "nodes": others.NODE_STRATEGY,
    "persistentvolumeclaims": others.CLAIM_STRATEGY,
    "persistentvolumes": others.VOLUME_STRATEGY,
    "pods": pods.POD_STRATEGY,
    "secrets": others.SECRET_STRATEGY,
    "serviceaccounts": others.SERVICE_ACCOUNT_STRATEGY,
    "services": services.SERVICE_STRATEGY,
    "endpointslices.discovery.k8s.io": endpoints.ENDPOINT_SLICE_STRATEGY,
    "deployments.apps": workloads.DEPLOYMENT_STRATEGY,
    "replicasets.apps": workloads.REPLICA_SET_STRATEGY,
    "statefulsets.apps": workloads.STATEFUL_SET_STRATEGY,
    "daemonsets.apps": workloads.DAEMON_SET_STRATEGY,
    "jobs.batch": workloads.JOB_STRATEGY,
    "cronjobs.batch": workloads.CRON_JOB_STRATEGY,
    "leases.coordination.k8s.io": others.LEASE_STRATEGY,
    "poddisruptionbudgets.policy": others.DISRUPTION_BUDGET_STRATEGY,
    "priorityclasses.scheduling.k8s.io": others.PRIORITY_CLASS_STRATEGY,
    "storageclasses.storage.k8s.io": others.STORAGE_CLASS_STRATEGY,
    f"ingresses.{_NETWORKING}": others.GENERATION_STRATEGY,
    f"ingressclasses.{_NETWORKING}": others.GENERATION_STRATEGY,
    f"networkpolicies.{_NETWORKING}": others.NETWORK_POLICY_STRATEGY,
    f"servicecidrs.{_NETWORKING}": others.SERVICE_CIDR_STRATEGY,
    f"ipaddresses.{_NETWORKING}": others.IP_ADDRESS_STRATEGY,
    f"roles.{_RBAC}": others.ROLE_STRATEGY,
    f"clusterroles.{_RBAC}": others.ROLE_STRATEGY,
    f"rolebindings.{_RBAC}": others.ROLE_BINDING_STRATEGY,
    f"clusterrolebindings.{_RBAC}": others.ROLE_BINDING_STRATEGY,
    f"mutatingwebhookconfigurations.{_ADMISSION}": others.WEBHOOK_STRATEGY,
    f"validatingwebhookconfigurations.{_ADMISSION}": others.WEBHOOK_STRATEGY,
    f"validatingadmissionpolicies.{_ADMISSION}": policies.VALIDATING_POLICY_STRATEGY,
    f"validatingadmissionpolicybindings.{_ADMISSION}": policies.POLICY_BINDING_STRATEGY,
}
_CUSTOM = Strategy(tracks_generation=True, allow_unconditional_update=False)


def strategy_for(resource: Resource) -> Strategy:
    """The strategy of a built-in by its store, or a default; one for all custom resources."""
    if resource.custom is not None:
        return _CUSTOM
    return _STRATEGIES.get(resource.store, DEFAULT_STRATEGY)
