"""Faults that a fleet is given, each by what a person or a machine may do to it."""

from msgspec import Struct

FUNCTIONS = """
k() { kubectl --context "$@"; }
make() { kubectl --context "$1" create -f - <<<"# YAML
$2"; }
host() { make "$1" "{apiVersion: v1, kind: Service, metadata: {name: $2, namespace: faults,
labels: {gslb: shared}, annotations: {external-dns.alpha.kubernetes.io/hostname: $3}},
spec: {type: LoadBalancer, selector: {app: $2}, ports: [{port: 80}]}}"; }
share() { make "$1" "{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport,
metadata: {name: $2, namespace: faults}}"; }
strict() { make "${2:-bergen}" "{apiVersion: admissionregistration.k8s.io/v1,
kind: ValidatingWebhookConfiguration, metadata: {name: strict}, webhooks: [{
name: policy.example.com, admissionReviewVersions: [v1], sideEffects: None, failurePolicy: Fail,
timeoutSeconds: 1, clientConfig: {url: 'https://127.0.0.1:1/validate'}, rules: [{
apiGroups: ['*'], apiVersions: ['*'], resources: [$1], operations: ['*']}]}]}"; }
"""

BEFORE = """
for c in lubeck hamburg bergen; do k $c create namespace faults & done; wait
"""

AFTER = """
gone="--wait=false --ignore-not-found"
for c in lubeck hamburg bergen broker; do k $c delete namespace faults $gone & done
k lubeck -n avi-system delete gslbhostrule first nowhere sticky --ignore-not-found
k bergen -n antrea-plus-system delete service mine --ignore-not-found
k bergen -n hanse-system delete deployment hanse-agent --ignore-not-found
k hamburg -n acme-web delete deployment asks --ignore-not-found
wait
"""


class Fault(Struct, frozen=True):
    """Something that goes wrong, and the finding that is to say so."""

    finding: str
    """Its code and subject."""
    script: str
    """What makes it go wrong, in a shell."""
    causes: bool = False
    """Whether users lose something by it, which is told under it, and it is told first."""
    follows: tuple[str, ...] = ()
    """What is said of things that follow from it."""
    remembered: tuple[str, ...] = ()
    """What the page alone says of such things, as agents remember what a lost cluster had."""
    asked: str = ""
    """What the person does whom the remedy names, where no command mends it."""
    restore: str = ""
    """What takes away what it needed, once it is mended."""
    seen_as: dict[str, str] = {}
    """The finding where a presentation knows less of the cause."""
    unseen_by: frozenset[str] = frozenset()
    """Presentations that cannot know it: only who has a person's credentials can."""


OBSERVERS = frozenset({"dashboard", "metrics", "events"})
"""Who sees with an agent's eyes alone."""

OBJECTS = (
    Fault("ExportInvalid ServiceExport faults/nothing in lubeck", "share lubeck nothing"),
    Fault(
        "PortConflict ServiceExport faults/ports in hamburg",
        """
        for c in lubeck hamburg bergen; do k $c -n faults create deployment ports --image x; done
        k lubeck -n faults create service clusterip ports --tcp 80; share lubeck ports
        k bergen -n faults create service clusterip ports --tcp 80
        k hamburg -n faults create service clusterip ports --tcp 81
        sleep 1; share hamburg ports; sleep 1; share bergen ports
        """,
    ),
    Fault(
        "TypeConflict ServiceExport faults/types in hamburg",
        """
        for c in lubeck hamburg; do k $c -n faults create deployment types --image x; done
        k lubeck -n faults create service clusterip types --tcp 80; share lubeck types
        k hamburg -n faults create service clusterip types --clusterip None --tcp 80
        sleep 1; share hamburg types
        """,
    ),
    Fault(
        "SettingIgnored ServiceExport shop/web in bergen",
        "k bergen -n shop annotate serviceexport web services.hanse.dev/weight=much",
    ),
    Fault(
        "ObjectPaused ServiceExport shop/web in hamburg",
        "k hamburg -n shop annotate serviceexport web hanse.dev/paused=true",
    ),
    Fault(
        "ObjectPaused EndpointSlice shop/lubeck.web-lubeck-shop-ipv4-75cea2c46257f37a3e2d in "
        "hamburg",
        """
        k hamburg -n shop annotate endpointslice \
            lubeck.web-lubeck-shop-ipv4-75cea2c46257f37a3e2d hanse.dev/paused=true
        """,
    ),
    Fault(
        "NoEndpoints Service faults/none",
        """
        k bergen -n faults create deployment none --image x --replicas 0
        k bergen -n faults create service clusterip none --tcp 80; share bergen none
        """,
    ),
    Fault(
        "NoEndpoints Service faults/idle",
        """
        make bergen '{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: idle,
        namespace: faults, labels: {app: idle}}, spec: {serviceName: idle, replicas: 0,
        selector: {matchLabels: {app: idle}}, template: {metadata: {labels: {app: idle}},
        spec: {containers: [{name: a, image: x}]}}}}'
        k bergen -n faults create service clusterip idle --tcp 80; share bergen idle
        """,
    ),
    Fault(
        "ImportBlocked ServiceImport faults/blocked in hamburg",
        """
        k lubeck -n faults create service clusterip blocked --tcp 80
        k lubeck -n faults create deployment blocked --image x
        make hamburg '{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport,
        metadata: {name: blocked, namespace: faults},
        spec: {type: ClusterSetIP, ports: [{port: 80, protocol: TCP}]}}'
        share lubeck blocked
        """,
    ),
    Fault(
        "FederatedDown FederatedService antrea-plus-system/down",
        """
        k lubeck -n faults create deployment down --image x --replicas 0
        k lubeck -n faults create service clusterip down --tcp 80
        k lubeck -n faults annotate service down svc.global.federated.antreaplus.vmware.com=down
        """,
    ),
    Fault(
        "NotFederated Service faults/bad in lubeck",
        """
        k lubeck -n faults create service clusterip bad --tcp 80
        k lubeck -n faults annotate service bad svc.global.federated.antreaplus.vmware.com='a b'
        """,
    ),
    Fault(
        "SettingIgnored Service faults/sideways in lubeck",
        """
        k lubeck -n faults create deployment sideways --image x
        k lubeck -n faults create service clusterip sideways --tcp 80
        k lubeck -n faults annotate service sideways federated.hanse.dev/affinity=sideways \
            svc.global.federated.antreaplus.vmware.com=sideways
        """,
    ),
    Fault(
        "NamesCollide Service antrea-plus-system/mine in bergen",
        """
        k bergen -n antrea-plus-system create service clusterip mine --tcp 80
        k lubeck -n faults create deployment mine --image x
        k lubeck -n faults create service clusterip mine --tcp 80
        k lubeck -n faults annotate service mine svc.global.federated.antreaplus.vmware.com=mine
        """,
    ),
    Fault(
        "PolicyIgnored NetworkPolicy faults/misspelt in lubeck",
        """
        make lubeck '{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {
        name: misspelt, namespace: faults,
        annotations: {federated.anp.antreaplus.vmware-tanzu.com: "yes"}},
        spec: {priority: 5, appliedTo: [{podSelector: {}}]}}'
        """,
    ),
    Fault(
        "PolicyLocalPeers NetworkPolicy faults/peers",
        """
        make lubeck '{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {
        name: peers, namespace: faults,
        annotations: {federated.anp.antreaplus.vmware-tanzu.com: "true"}},
        spec: {priority: 5, appliedTo: [{podSelector: {}}],
        ingress: [{action: Allow, from: [{podSelector: {}}]}]}}'
        """,
    ),
    Fault(
        "GlobalPolicyInvalid GlobalDeploymentPolicy avi-system/global-gdp in lubeck",
        """
        k lubeck -n avi-system patch globaldeploymentpolicy global-gdp --type merge \
            -p '{"spec":{"matchClusters":[{"cluster":"nowhere"}]}}'
        """,
        restore="""
        k lubeck -n avi-system patch globaldeploymentpolicy global-gdp --type merge -p \
            '{"spec":{"matchClusters":[{"cluster":"lubeck"},{"cluster":"hamburg"},{"cluster":"bergen"}]}}'
        """,
    ),
    Fault(
        "HostRuleRejected GSLBHostRule avi-system/second in lubeck",
        """
        for name in first second; do
        make lubeck "{apiVersion: amko.vmware.com/v1alpha1, kind: GSLBHostRule,
        metadata: {name: $name, namespace: avi-system}, spec: {fqdn: web.global.test, ttl: 30}}"
        sleep 1.1; done
        """,
    ),
    Fault(
        "HostRuleRejected GSLBHostRule avi-system/nowhere in lubeck",
        """
        make lubeck '{apiVersion: amko.vmware.com/v1alpha1, kind: GSLBHostRule,
        metadata: {name: nowhere, namespace: avi-system},
        spec: {fqdn: other.global.test, trafficSplit: [{cluster: nowhere, weight: 1}]}}'
        """,
    ),
    Fault(
        "ExportInvalid ServiceExport faults/elsewhere in bergen",
        """
        k bergen -n faults create service externalname elsewhere --external-name example.org
        share bergen elsewhere
        """,
    ),
    Fault(
        "SettingIgnored ServiceExport shop/web in lubeck",
        "k lubeck -n shop annotate serviceexport web services.hanse.dev/priority=high",
    ),
    Fault(
        "SetRefused StatefulSet faults/refused in bergen",
        """
        k broker create namespace faults
        k broker -n faults create service clusterip refused --clusterip None --tcp 80
        make broker '{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: refused,
        namespace: faults, annotations: {federation.kubernetes.io/statefulset-lb-needed: "true"}},
        spec: {serviceName: refused, replicas: 3, selector: {matchLabels: {a: b}}, template:
        {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: x}]}}}}'
        """,
        follows=("3 of 3 replicas have no place",),  # SetNotPlaced
    ),
    Fault(
        "BrokerUnguarded ValidatingAdmissionPolicyBinding hanse-broker-imports in broker",
        "k broker delete validatingadmissionpolicybinding hanse-broker-imports",
        unseen_by=OBSERVERS,
    ),
    Fault(
        "MemberUnguarded ValidatingAdmissionPolicyBinding hanse-supervisor-slices in bergen",
        "k bergen delete validatingadmissionpolicy hanse-supervisor-slices",
        unseen_by=OBSERVERS,
    ),
    Fault(
        "WebhookDown ValidatingWebhookConfiguration hanse-old in lubeck",
        """
        make lubeck '{apiVersion: admissionregistration.k8s.io/v1,
        kind: ValidatingWebhookConfiguration, metadata: {name: hanse-old},
        webhooks: [{name: old.hanse.dev, failurePolicy: Ignore, sideEffects: None, rules: [],
        admissionReviewVersions: [v1],
        clientConfig: {service: {name: hanse-old, namespace: hanse-system}}}]}'
        """,
        unseen_by=OBSERVERS,
    ),
    Fault(  # with a registry, arguments and replicas of its own, which stay
        "VersionSkew Deployment hanse-system/hanse-agent in bergen",
        """
        make bergen '{apiVersion: apps/v1, kind: Deployment, metadata: {name: hanse-agent,
        namespace: hanse-system, labels: {app.kubernetes.io/version: trunk}},
        spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
        spec: {containers: [{name: hanse-agent, image: "registry.example:5000/hanse:trunk",
        args: [agent, --own]}]}}}}'
        """,
        unseen_by=OBSERVERS,
    ),
    Fault(
        "SetShort StatefulSet shop/store",
        "k bergen -n shop annotate pod store-bergen-0 sim.hanse.dev/ready=false",
    ),
    Fault(
        "NotBalanced GSLBHostRule avi-system/sticky in lubeck",
        """
        make lubeck '{apiVersion: amko.vmware.com/v1alpha1, kind: GSLBHostRule, metadata:
        {name: sticky, namespace: avi-system},
        spec: {fqdn: sticky.global.test, sitePersistence: {enabled: true}}}'
        """,
    ),
    Fault(
        "GlobalPolicyInvalid GlobalDeploymentPolicy faults/astray in lubeck",
        """
        make lubeck '{apiVersion: amko.vmware.com/v1alpha2, kind: GlobalDeploymentPolicy,
        metadata: {name: astray, namespace: faults}, spec: {matchClusters: [{cluster: lubeck}]}}'
        """,
    ),
    Fault(
        "PolicyNamesNothing NetworkPolicy faults/nobody in bergen",
        """
        make lubeck '{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {
        name: nobody, namespace: faults,
        annotations: {federated.anp.antreaplus.vmware-tanzu.com: "true"}},
        spec: {priority: 5, appliedTo: [{group: nobody}]}}'
        """,
    ),
    Fault(
        "DnsDown Deployment hanse-system/hanse-dns in lubeck",
        "k lubeck -n hanse-system create deployment hanse-dns --image x --replicas 0",
        unseen_by=OBSERVERS,
        restore="k lubeck -n hanse-system delete deployment hanse-dns",
    ),
    Fault(
        "ZoneNotDelegated ConfigMap kube-system/coredns in bergen",
        """
        k bergen -n hanse-system create deployment hanse-dns --image x
        k bergen -n hanse-system create service clusterip hanse-dns --tcp 53
        k bergen -n kube-system create configmap coredns \
            --from-literal "Corefile=$(hanse dns corefile 10.2.0.99)"
        """,
        unseen_by=OBSERVERS,
        asked="""
        address=$(k bergen -n hanse-system get service hanse-dns -o 'jsonpath={.spec.clusterIP}')
        k bergen -n kube-system create configmap coredns --dry-run=client -o yaml \
            --from-literal "Corefile=$(hanse dns corefile "$address")" | k bergen replace -f -
        """,
        restore="""
        k bergen -n hanse-system delete deployment,service hanse-dns
        k bergen -n kube-system delete configmap coredns
        """,
    ),
)
"""What can be wrong at once, with objects of users and of administrators."""

SPANNING = (
    Fault(
        "ClusterSetIgnored ClusterSet second in broker",
        """
        make broker '{apiVersion: hanse.dev/v1alpha1, kind: ClusterSet, metadata: {name: second},
        spec: {paused: false}}'
        """,
    ),
    Fault(
        "AddressesRefused ServiceExport shop/web in hamburg",
        """
        k broker patch clusterset local --type merge \
            -p '{"spec":{"clusters":[{"id":"hamburg","ranges":["10.99.0.0/16"]}]}}'
        """,
    ),
    Fault(
        "PolicyConflict NetworkPolicy faults/crossed",
        """
        make lubeck '{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {
        name: crossed, namespace: faults,
        annotations: {federated.anp.antreaplus.vmware-tanzu.com: "true"}},
        spec: {priority: 5, appliedTo: [{podSelector: {matchLabels: {app: web}}}]}}'
        policy=networkpolicies.crd.antrea.io/crossed
        k bergen -n faults wait --for=create --timeout=60s $policy
        for c in lubeck hamburg; do k $c annotate namespace hanse-system hanse.dev/paused=true; done
        k lubeck -n faults patch $policy --type merge -p '{"spec":{"priority":6}}'
        k bergen -n faults patch $policy --type merge -p '{"spec":{"priority":7}}'
        for c in lubeck hamburg; do k $c annotate namespace hanse-system hanse.dev/paused-; done
        """,
    ),
    Fault(
        "PolicyBlocked NetworkPolicy faults/taken in bergen",
        """
        for c in bergen lubeck; do
        make $c '{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {
        name: taken, namespace: faults},
        spec: {priority: 5, appliedTo: [{podSelector: {matchLabels: {app: web}}}]}}'
        done
        k lubeck -n faults annotate networkpolicies.crd.antrea.io/taken \
            federated.anp.antreaplus.vmware-tanzu.com=true
        """,
    ),
    Fault(
        "MembersDiffer Federation local",
        """
        k hamburg patch federation local --type json -p \
            '[{"op": "remove", "path": "/spec/members/2"}]'
        """,
    ),
    Fault(
        "HostDown GlobalService avi-system/down.global.test",
        """
        k hamburg -n faults create deployment fallen --image x --replicas 0
        host hamburg fallen down.global.test
        """,
    ),
    Fault(
        "NameUnserved GlobalService shop.example.org",
        """
        k lubeck -n faults create deployment outside --image x
        host lubeck outside shop.example.org
        """,
    ),
    Fault(
        "DnsStale Network acme.default in hamburg",
        """
        k hamburg -n acme-web create deployment asks --image x
        k hamburg -n acme-web wait --for=condition=Available --timeout=60s deployment/asks
        k hamburg annotate namespace hanse-system hanse.dev/paused=true
        was=$(k hamburg get network acme.default -o 'jsonpath={.status.dnsServiceIP}')
        k hamburg -n acme-kube-system delete service kube-dns-default
        k hamburg -n faults create service clusterip moved --tcp 80 --clusterip "$was"
        k hamburg annotate namespace hanse-system hanse.dev/paused-
        """,
    ),
)
"""More of them, of what spans clusters, which the others would hide."""
