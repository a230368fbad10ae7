"""Faults of who refuses what agents write, each by what makes it go wrong."""

from tests.cli.fault_table import Fault

TENANT_POLICY = """\
        make lubeck '{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {
        name: tenants, namespace: acme-web,
        annotations: {federated.anp.antreaplus.vmware-tanzu.com: "true"}},
        spec: {priority: 5, appliedTo: [{podSelector: {matchLabels: {app: web}}}]}}'
        """
"""A policy that the webhook of a tenant's cluster is asked about, created in lubeck."""

NARROW = (
    Fault(
        "WebhookDown Webhook policy.example.com in bergen",
        """
        strict serviceimports,endpointslices
        k lubeck -n shop create deployment guarded --image x
        k lubeck -n shop create service clusterip guarded --tcp 80
        make lubeck '{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport,
        metadata: {name: guarded, namespace: shop}}'
        """,
        restore="""
        k bergen -n shop wait --for=create --timeout=60s serviceimport/guarded
        k bergen delete validatingwebhookconfiguration strict
        k lubeck -n shop delete serviceexport,service,deployment guarded
        """,
    ),
)
ALL = (
    Fault(
        "WebhookDown Webhook policy.example.com in bergen",
        "strict \"'*/*'\"",
        causes=True,
        follows=("the agent of bergen does not run",),  # AgentSilent
        restore="k bergen delete validatingwebhookconfiguration strict",
    ),
)
BROKER = (
    Fault(
        "WebhookDown Webhook policy.example.com in broker",
        "strict \"'*/*'\" broker",
        causes=True,
        follows=("bergen is silent: ", "lubeck is silent: "),  # ClusterSilent
        restore="k broker delete validatingwebhookconfiguration strict",
    ),
)
ALONE = (  # no other agent writes into it
    Fault(
        "WebhookDown Webhook policy.example.com in bergen",
        """
        hanse leave --federation local --cluster-id bergen --context bergen
        strict "'*/*'"
        """,
        causes=True,
        follows=("the agent of bergen does not run",),  # AgentSilent
        restore="""
        k bergen delete validatingwebhookconfiguration strict
        hanse join --federation local --cluster-id bergen --context bergen --supervisor lubeck
        """,
    ),
)
OURS = (  # which is served by the agent
    Fault(
        "AgentSilent Cluster bergen",
        """
        hanse local stop agent bergen
"""
        + TENANT_POLICY,
        causes=True,
        follows=("by Webhook networks-plugin-policies-0.webhooks.hanse.dev of",),  # WebhookDown
        seen_as={"metrics": "ClusterSilent Cluster bergen", "events": "ClusterSilent"},
        restore="k lubeck -n acme-web delete networkpolicies.crd.antrea.io tenants",
    ),
)
DIVERTED = (
    Fault(
        "ObjectPaused ValidatingWebhookConfiguration hanse-webhooks in bergen",
        """
        k bergen annotate validatingwebhookconfiguration hanse-webhooks hanse.dev/paused=true
        k bergen patch validatingwebhookconfiguration hanse-webhooks --type json -p '[{"op":
        "replace", "path": "/webhooks/19/clientConfig/url", "value": "https://127.0.0.1:1/"}]'
"""
        + TENANT_POLICY,
        causes=True,
        follows=("by Webhook networks-plugin-policies-0.webhooks.hanse.dev of",),  # WebhookDown
        seen_as={  # of the agent that is refused
            "metrics": "WebhookDown Webhook networks-plugin-policies-0.webhooks.hanse.dev in bergen"
        },
        restore="k lubeck -n acme-web delete networkpolicies.crd.antrea.io tenants",
    ),
)
UNRENEWED = (
    Fault(
        "AgentForbidden Cluster bergen",
        "k bergen -n hanse-system delete rolebinding hanse-agent; sleep 25",
        causes=True,
        unseen_by=frozenset({"events"}),  # who may not renew its Lease writes none
    ),
)
REFUSALS = {
    "webhook": NARROW,
    "webhook of all": ALL,
    "webhook of broker": BROKER,
    "webhook where nobody else writes": ALONE,
    "webhook of ours": OURS,
    "no right to its Lease": UNRENEWED,
    "webhook that leads nowhere": DIVERTED,
}
"""Webhooks that do not answer, one by one."""
