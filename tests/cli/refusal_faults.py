"""Faults of who refuses what agents write, each by what makes it go wrong."""

from tests.cli.fault_table import Fault

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
REFUSALS = {
    "webhook": NARROW,
    "webhook of all": ALL,
    "webhook of broker": BROKER,
    "webhook where nobody else writes": ALONE,
}
"""Webhooks that do not answer, one by one."""
