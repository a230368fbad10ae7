"""Faults of clusters, their agents and connections, each by what makes it go wrong."""

from hanse.model.kinds.federation import SUPERVISOR
from tests.cli.fault_table import OBSERVERS, Fault

KILLED = (
    Fault(
        "ClusterUnreachable Cluster bergen",
        "hanse local kill bergen",
        causes=True,
        follows=(  # EndpointsLost, HostDegraded, MemberUnreachable
            "shop/web is served by 2 of 3 clusters, not by bergen",
            "host web.global.test is known to be up at 2 of 3 members",
            "Federation local in lubeck: bergen: ",
        ),
        remembered=(  # FederatedDegraded
            "federated Service antrea-plus-system/web is served by ",
        ),
    ),
    Fault(
        "AgentPaused Cluster lubeck",
        "k lubeck annotate namespace hanse-system hanse.dev/paused=true",
    ),
    Fault(
        "FleetPaused ClusterSet local in broker",
        """k broker patch clusterset local --type merge -p '{"spec":{"paused":true}}'""",
    ),
    Fault(
        "CrdOld CustomResourceDefinition serviceexports.multicluster.x-k8s.io in hamburg",
        """
        k hamburg patch crd serviceexports.multicluster.x-k8s.io --type json -p '[{"op": "add",
        "path": "/spec/versions/0/additionalPrinterColumns", "value": []}]'
        """,
        unseen_by=OBSERVERS,
    ),
)
STOPPED = (
    Fault(
        "AgentSilent Cluster bergen",
        """
        hanse local stop agent bergen
        k bergen -n shop create deployment unseen --image x
        k bergen -n shop create service clusterip unseen --tcp 80
        make bergen '{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport,
        metadata: {name: unseen, namespace: shop}}'
        """,
        causes=True,
        follows=("no agent has looked at the export of shop/unseen in bergen",),  # ExportUnseen
        seen_as={"metrics": "ClusterSilent Cluster bergen", "events": "ClusterSilent"},
        restore="k bergen -n shop delete serviceexport,service,deployment unseen",
    ),
    Fault(
        "TwoLeaders AMKOCluster leader",
        """
        k hamburg -n avi-system patch amkocluster amkocluster-federation --type merge \
            -p '{"spec":{"isLeader":true}}'
        """,
    ),
)
CUT = (
    Fault("LinkCut Link lubeck-bergen in lubeck", "hanse local cut lubeck bergen", causes=True),
    Fault(
        "ProviderFailed GSLBConfig avi-system/second in lubeck",
        """
        make lubeck '{apiVersion: amko.vmware.com/v1alpha1, kind: GSLBConfig,
        metadata: {name: second, namespace: avi-system},
        spec: {memberClusters: [{clusterContext: lubeck}]}}'
        """,
        causes=True,
    ),
)
REFUSED = (
    Fault(
        "TokenRevoked Link lubeck-bergen in lubeck",
        "k bergen -n antrea-plus-system delete serviceaccount hanse-supervisor-lubeck",
        causes=True,
    ),
    Fault(  # an agent that leads nobody knows nothing of the others' AMKOClusters
        "LeaderMissing AMKOCluster leader",
        "hanse gslb demote lubeck",
        unseen_by=frozenset({"metrics", "events"}),
    ),
)
UNTRUSTED = (
    Fault(
        "LinkCut Link lubeck-bergen in lubeck",
        """
        ca=$(k lubeck -n antrea-plus-system get secret member-hamburg \
            -o jsonpath='{.data.ca\\.crt}')
        k lubeck -n antrea-plus-system patch secret member-bergen --type merge \
            -p "{\\"data\\":{\\"ca.crt\\":\\"$ca\\"}}"
        """,
        causes=True,
    ),
)
SILENT = (
    Fault(
        "ClusterSilent Cluster bergen",
        """
        hanse local cut bergen broker
        sleep 20  # its Lease ends
        k broker -n shop patch statefulset store --type merge \
            -p '{"spec":{"template":{"metadata":{"annotations":{"rolled":"out"}}}}}'
        """,
        causes=True,
        follows=("the roll-out of StatefulSet shop/store has halted in",),
    ),
    Fault("ClusterSetMissing ClusterSet default in broker", "k broker delete clusterset --all"),
)
SLOW = (Fault("ClusterSlow Cluster bergen", "hanse local slow bergen 3s"),)
HANGING = (
    Fault(  # longer than a command waits; agents wait longer, and say that it is slow
        "ClusterUnreachable Cluster bergen", "hanse local slow bergen 6s", unseen_by=OBSERVERS
    ),
)
UNVERIFIED = (
    Fault(
        "CertificateUntrusted Cluster bergen",
        """
        kubectl config view --raw >before
        kubectl config view --raw -o jsonpath="{.clusters[?(@.name=='hamburg')].cluster\
        .certificate-authority-data}" | base64 -d >other.crt
        kubectl config set-cluster bergen --certificate-authority other.crt --embed-certs
        """,
        unseen_by=OBSERVERS,
        asked='cat before >"$KUBECONFIG"',
    ),
)
BROKERLESS = (Fault("BrokerLost Cluster broker", "hanse local kill broker"),)
EMPTIED = (
    Fault(
        "BrokerNamespaceMissing Cluster broker",
        "k broker delete namespace hanse-broker",
        causes=True,
    ),
)
FORBIDDEN = (
    Fault(  # who may not read a cluster writes no Events there
        "AgentForbidden Cluster bergen",
        """
        hanse local stop agent bergen
        k bergen delete clusterrolebinding hanse-agent-networks
        hanse local start agent bergen
        """,
        unseen_by=frozenset({"events"}),
    ),
)
UNREADABLE = (
    Fault(
        "NotReadable Credentials bergen",
        """
        k bergen -n default create serviceaccount looker
        k bergen create clusterrolebinding looker --clusterrole view --serviceaccount default:looker
        kubectl config set-credentials looker \
            --token "$(k bergen -n default create token looker --duration 720h)"
        kubectl config set-context bergen --user looker
        """,
        unseen_by=OBSERVERS,
        asked="""
        kubectl config set-context bergen --user admin@bergen
        k bergen create clusterrolebinding looks-at-all --clusterrole cluster-admin \
            --serviceaccount default:looker
        kubectl config set-context bergen --user looker
        """,
    ),
    Fault("RightMissing Credentials bergen", ":", unseen_by=OBSERVERS, asked=":"),
)
ABSENT = (
    Fault(
        "AgentMissing Cluster bergen",
        """
        hanse local stop agent bergen
        k bergen -n hanse-system delete lease hanse-agent
        """,
        causes=True,
        seen_as={
            "dashboard": "AgentSilent Cluster bergen",
            "metrics": "ClusterSilent Cluster bergen",
            "events": "ClusterSilent",
        },
    ),
)
LEASELESS = (
    Fault(
        "LeaseMissing Lease hanse-broker/bergen in broker",
        """
        hanse local stop agent bergen
        k broker -n hanse-broker delete lease bergen
        """,
        unseen_by=OBSERVERS,
    ),
    Fault("AgentSilent Cluster bergen", "sleep 20", unseen_by=OBSERVERS),
)
UNRECORDED = (
    Fault(
        "MemberRecordMissing ClusterMember hanse-broker/bergen in broker",
        "k broker -n hanse-broker delete clustermember bergen",
    ),
)
MISTAKEN = (  # whose uid no other agent knows
    Fault(
        "MemberMismatch Cluster bergen",
        """
        k broker -n hanse-broker patch clustermember bergen --type merge \
            -p '{"spec":{"uid":"other"}}'
        """,
        causes=True,
    ),
)
REJECTED = (
    Fault(
        "ClusterSilent Cluster bergen",
        "k broker -n hanse-broker-accounts delete serviceaccount bergen",
        causes=True,
        follows=("broker refuses the credentials of the agent of bergen",),
    ),
)
DENIED = (
    Fault(
        "ClusterSilent Cluster bergen",
        """
        k broker -n hanse-broker delete rolebinding \
            hanse-broker:bergen hanse-broker:bergen:member
        """,
        causes=True,
        follows=("broker refuses the agent of bergen: its account may not use leases",),
    ),
)
HOMELESS = (
    Fault(
        "AgentMissing Cluster bergen",
        "k bergen delete namespace hanse-system",
        causes=True,
        seen_as={"events": "ClusterSilent"},
    ),
)
DISOWNED = (
    Fault(
        "AgentMissing Cluster bergen",
        "k bergen -n hanse-system delete serviceaccount hanse-agent",
        causes=True,
        seen_as={"events": "ClusterSilent"},
    ),
)
UNDEFINED = (
    Fault(
        "CrdMissing CustomResourceDefinition serviceimports.multicluster.x-k8s.io in bergen",
        "k bergen delete crd serviceimports.multicluster.x-k8s.io",
        follows=("the export of shop/web in bergen: it is not imported here",),  # ImportBlocked
        unseen_by=OBSERVERS,
    ),
)
PAUSED = (
    Fault(
        "FleetPaused ClusterSet local in broker",
        """
        k broker patch clusterset local --type merge -p '{"spec":{"paused":true}}'
        k lubeck -n shop create deployment pending --image x
        k lubeck -n shop create service clusterip pending --tcp 80
        make lubeck '{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport,
        metadata: {name: pending, namespace: shop}}'
        k broker -n shop patch statefulsetshares store --type merge \
            -p '{"spec":{"shares":[{"name":"bergen","replicas":3}]}}'
        """,
        follows=(  # ExportPending, ShareDisputed
            "the export of shop/pending in lubeck: the broker has not taken it yet",
            "the recorded shares of bergen, ",
        ),
        restore="k lubeck -n shop delete serviceexport,service,deployment pending",
    ),
)
UNKNOWN = (
    Fault(
        "CredentialsRefused Cluster bergen",
        """
        kubectl config set-credentials stranger --token nobody
        kubectl config set-context bergen --user stranger
        """,
        unseen_by=OBSERVERS,
        asked="kubectl config set-context bergen --user admin@bergen",
    ),
)
EXPIRING = (
    Fault(
        "TokenExpiring Credentials bergen",
        """
        k bergen -n default create serviceaccount looker
        k bergen create clusterrolebinding looker --clusterrole cluster-admin \
            --serviceaccount default:looker
        kubectl config set-credentials looker \
            --token "$(k bergen -n default create token looker --duration 24h)"
        kubectl config set-context bergen --user looker
        """,
        unseen_by=OBSERVERS,
        asked="""
        kubectl config set-credentials looker \
            --token "$(k bergen -n default create token looker --duration 720h)"
        """,
    ),
)
FEDERATIONLESS = (
    Fault("FederationMissing Federation local in bergen", "k bergen delete federation local"),
)
MEMBERLESS = (
    Fault("FederationMissing Federation local in lubeck", "k lubeck delete federation local"),
)
HALF_LEFT = (
    Fault(
        "MemberLeaving Federation local in hamburg",
        f"""
        k hamburg delete clusterclaim {SUPERVISOR}
        began=$(date -u -d '-5 min' +%Y-%m-%dT%H:%M:%SZ)
        k hamburg annotate federation local --overwrite hanse.dev/leaving=$began
        """,
        restore="hanse join --federation local --cluster-id hamburg --context hamburg "
        "--supervises --supervisor lubeck",
    ),
)
ABANDONED = (
    Fault(  # a note, which warns nobody by an Event
        "MemberAbandoned Federation local in lubeck",
        "hanse leave --federation local --cluster-id bergen --supervisor lubeck --force",
        unseen_by=frozenset({"events"}),
        restore="hanse join --federation local --cluster-id bergen --context bergen "
        "--supervisor lubeck",
    ),
)
LEFT = (  # which the join of the second mends, too
    Fault(
        "SetNotPlaced StatefulSet shop/store in broker",
        "hanse leave --broker broker --cluster-id bergen --context bergen",
        causes=True,
        follows=("StatefulSet shop/store has 2 of 3 replicas ready: bergen 0/1",),
        asked=":",
    ),
    Fault("ExportPending ServiceExport shop/web in bergen", ":"),
)
RETURNED = (
    Fault(
        "PolicyQuarantined NetworkPolicy shop/again in bergen",
        """
        policy() { make $1 "{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {
        name: again, namespace: shop,
        annotations: {federated.anp.antreaplus.vmware-tanzu.com: \\"true\\"}},
        spec: {priority: $2, appliedTo: [{podSelector: {matchLabels: {app: web}}}]}}"; }
        policy lubeck 5
        k bergen -n shop wait --for=create --timeout=60s networkpolicies.crd.antrea.io/again
        hanse leave --federation local --cluster-id bergen --context bergen
        k bergen -n shop delete networkpolicies.crd.antrea.io again
        policy bergen 9
        hanse join --federation local --cluster-id bergen --context bergen --supervisor lubeck
        """,
        restore="k lubeck -n shop delete networkpolicies.crd.antrea.io again",
    ),
)
POLICYLESS = (
    Fault(
        "GslbIncomplete AMKOCluster avi-system/amkocluster-federation in lubeck",
        """
        k lubeck -n avi-system get globaldeploymentpolicy global-gdp -o yaml >gdp.yaml
        k lubeck -n avi-system delete globaldeploymentpolicy global-gdp
        """,
        asked="k lubeck -n avi-system create -f gdp.yaml",
    ),
)
CLUSTERS = {
    "forbidden": FORBIDDEN,
    "unreadable": UNREADABLE,
    "killed": KILLED,
    "stopped": STOPPED,
    "cut": CUT,
    "refused": REFUSED,
    "untrusted": UNTRUSTED,
    "slow": SLOW,
    "hanging": HANGING,
    "unverified": UNVERIFIED,
    "brokerless": BROKERLESS,
    "emptied": EMPTIED,
    "absent": ABSENT,
    "leaseless": LEASELESS,
    "unrecorded": UNRECORDED,
    "mistaken": MISTAKEN,
    "rejected": REJECTED,
    "denied": DENIED,
    "homeless": HOMELESS,
    "disowned": DISOWNED,
    "undefined": UNDEFINED,
    "policyless": POLICYLESS,
    "paused": PAUSED,
    "unknown": UNKNOWN,
    "expiring": EXPIRING,
    "federationless": FEDERATIONLESS,
    "memberless": MEMBERLESS,
    "half left": HALF_LEFT,
    "abandoned": ABANDONED,
    "left": LEFT,
    "returned": RETURNED,
    "silent": SILENT,
}
"""Faults of clusters, which hide others: one by one; the last leaves another ClusterSet."""

SHORT_LEASES = """
k broker patch "$(k broker get clusterset -o name)" --type merge \
    -p '{"spec":{"leaseDurationSeconds":10}}'
"""
LONG_LEASES = """
k broker patch "$(k broker get clusterset -o name)" --type merge \
    -p '{"spec":{"leaseDurationSeconds":30}}'
"""
TIDY = """
kubectl config set-context bergen --user admin@bergen
k bergen delete clusterrolebinding looker looks-at-all --ignore-not-found
k bergen -n default delete serviceaccount looker --ignore-not-found
"""
