"""The remedy of a policy that names clusters which the GSLBConfig lacks."""

import json
from shlex import quote

from hanse.features.gslb.configuration import NO_MEMBER
from hanse.model.findings import Remedy, remedy
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.gslb import NAMESPACE, AMKOCluster, GlobalDeploymentPolicy, GSLBConfig
from hanse.model.objects import ClusterId
from hanse.model.remedies import resource_of


def add_lacking_clusters_remedy(
    policy: GlobalDeploymentPolicy, where: ClusterId, message: str, snapshot: MultiClusterSnapshot
) -> Remedy | None:
    """A kubectl patch that adds clusters which a policy matches to the GSLBConfig that lacks them.

    It adds those that are the context of an AMKOCluster anywhere. None if the error `message` names
    none of these, or there is not exactly one GSLBConfig in the GSLB namespace.
    """
    configs = [one for one in snapshot.all(where, GSLBConfig) if one.namespace == NAMESPACE]
    if NO_MEMBER not in message or len(configs) != 1:
        return None
    clusters = (one for _, one in snapshot.everywhere(AMKOCluster) if one.namespace == NAMESPACE)
    contexts = {one.spec.cluster_context for one in clusters}
    named = {one.cluster_context for one in configs[0].spec.member_clusters}
    matched = dict.fromkeys(one.cluster for one in policy.spec.match_clusters)
    lacking = [one for one in matched if one in contexts - named]
    if not any(f" {one} {NO_MEMBER}" in message for one in lacking):
        return None
    value = [{"clusterContext": one} for one in lacking]
    change = (
        [{"op": "add", "path": "/spec/memberClusters/-", "value": one} for one in value]
        if named
        else [{"op": "add", "path": "/spec/memberClusters", "value": value}]
    )
    patch = f"--type json -p {quote(json.dumps(change))}"
    command = f"patch {resource_of(configs[0])} {configs[0].name} {patch}"
    return remedy(snapshot.kubectl(where, command, NAMESPACE))
