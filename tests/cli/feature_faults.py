"""Faults of what features keep: hosts, networks, machines, sets, and what clusters refuse."""

from hanse.features.networks.cni_script import GUARD_SILENT
from tests.cli.fault_table import OBSERVERS, Fault

REFUSE = """
refuse() {
make "$1" "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy,
metadata: {name: refuses}, spec: {matchConstraints: {resourceRules: [{apiGroups: [\\"$2\\"],
apiVersions: ['*'], operations: [CREATE, UPDATE], resources: [$3]}]}, validations: [
{expression: \\"!object.metadata.name.contains('stuck')\\", message: closed for today}]}}"
make "$1" "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding,
metadata: {name: refuses}, spec: {policyName: refuses, validationActions: [Deny]}}"; sleep 1; }
"""
ACCEPT_AGAIN = """
k {cluster} delete validatingadmissionpolicybinding refuses
k {cluster} delete validatingadmissionpolicy refuses
"""
SERVICES = """
services() { for i in $(seq "$3"); do echo "---
{apiVersion: v1, kind: Service, metadata: {name: $2-$i, namespace: acme-web, labels:
{arktos.futurewei.com/network: $2}}, spec: {ports: [{port: 80}], selector: {a: b}}}"; done |
    kubectl --context "$1" create -f -; }
network() { make "$1" "{apiVersion: arktos.futurewei.com/v1, kind: Network, metadata: {
name: acme.$2}, spec: {type: flat, tenant: acme, service: {cidrs: [$3]}}}"
k "$1" wait --for=jsonpath='{.status.phase}'=Ready --timeout=60s network/acme.$2; }
set() { make broker "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: $1,
namespace: faults, annotations: {federation.kubernetes.io/statefulset-lb-needed: \\"true\\"}},
spec: {serviceName: $1, replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {
labels: {a: b}}, spec: {containers: [{name: a, image: x}]}}}}"; }
"""
FEATURE_FUNCTIONS = REFUSE + SERVICES

FEATURES = (
    Fault(  # a note, which warns nobody by an Event
        "EndpointsLost Service faults/half",
        """
        k lubeck -n faults create deployment half --image x
        k bergen -n faults create deployment half --image x --replicas 0
        for c in lubeck bergen; do k $c -n faults create service clusterip half --tcp 80; done
        share lubeck half; share bergen half
        """,
        unseen_by=frozenset({"events"}),
    ),
    Fault(
        "HostDegraded GlobalService avi-system/half.global.test",
        """
        k lubeck -n faults create deployment halfup --image x
        k hamburg -n faults create deployment halfup --image x --replicas 0
        for c in lubeck hamburg; do host $c halfup half.global.test; done
        """,
    ),
    Fault(
        "RangesOverlap ClusterMember bergen-hamburg in broker",
        """
        k broker patch clusterset local --type merge \
            -p '{"spec":{"clusters":[{"id":"hamburg","ranges":["10.0.0.0/8"]}]}}'
        """,
    ),
    Fault(
        "NodesNotReady Node hamburg-node-1 in hamburg",
        "k hamburg annotate node hamburg-node-1 sim.hanse.dev/ready=false",
        asked="k hamburg annotate node hamburg-node-1 sim.hanse.dev/ready-",
    ),
    Fault(
        "PolicyNotEnforced NetworkPolicy faults/machines in lubeck",
        """
        make lubeck '{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {
        name: machines, namespace: faults}, spec: {priority: 5, appliedTo: [
        {externalEntitySelector: {matchLabels: {a: b}}}]}}'
        """,
        asked="k lubeck -n faults delete networkpolicies.crd.antrea.io machines",
    ),
    Fault(
        "MachineNotServed VirtualMachine faults/machine in bergen",
        """
        make bergen '{apiVersion: antreaplus.vmware-tanzu.com/v1alpha1, kind: VirtualMachine,
        metadata: {name: machine, namespace: faults}, spec: {id: i-1, tags: {
        svc.antreaplus.vmware-tanzu.com: "a b"}}}'
        """,
        asked="k bergen -n faults delete virtualmachines.antreaplus.vmware-tanzu.com machine",
    ),
    Fault(
        "TenantFailed Tenant gamma in hamburg",
        """
        k hamburg create namespace gamma-web
        make hamburg '{apiVersion: arktos.futurewei.com/v1, kind: Tenant, metadata: {name: gamma},
        spec: {namespaces: [web]}}'
        """,
        asked="k hamburg label namespace gamma-web arktos.futurewei.com/tenant=gamma",
        restore="""
        k hamburg delete tenant gamma
        k hamburg delete namespace gamma-web gamma-default gamma-kube-system --ignore-not-found
        """,
    ),
    Fault(
        "NetworkFailed Network nobody.default in lubeck",
        """
        make lubeck '{apiVersion: arktos.futurewei.com/v1, kind: Network,
        metadata: {name: nobody.default}, spec: {type: flat, tenant: nobody}}'
        """,
        asked="k lubeck delete network nobody.default",
    ),
    Fault(
        "PoolExhausted Network acme.tiny in lubeck",
        "network lubeck tiny 10.77.0.0/29; services lubeck tiny 4",
        asked="""
        k lubeck patch network acme.tiny --type merge \
            -p '{"spec":{"service":{"cidrs":["10.77.0.0/29","10.77.1.0/24"]}}}'
        """,
        restore="k lubeck -n acme-web delete services --all; k lubeck delete network acme.tiny",
    ),
    Fault(
        "PoolNearlyFull Network acme.small in bergen",
        "network bergen small 10.77.0.0/28; services bergen small 11",
        asked="k bergen -n acme-web delete service small-1 small-2",
        restore="k bergen -n acme-web delete services --all; k bergen delete network acme.small",
    ),
    Fault(
        "GslbStageFailed AMKOCluster avi-system/amkocluster-federation in lubeck",
        """
        k lubeck -n avi-system patch amkocluster amkocluster-federation --type merge \
            -p '{"spec":{"clusters":["lubeck","hamburg","bergen","nowhere"]}}'
        """,
        asked="""
        k lubeck -n avi-system patch amkocluster amkocluster-federation --type merge \
            -p '{"spec":{"clusters":["lubeck","hamburg","bergen"]}}'
        """,
    ),
    Fault(
        "FederationInvalid Federation local in lubeck",
        "k lubeck -n antrea-plus-system delete secret member-bergen",
    ),
    Fault(
        "WriteRefused ValidatingAdmissionPolicy refuses in broker",
        """
        refuse broker discovery.k8s.io endpointslices
        k lubeck -n faults create deployment stuck --image x
        k lubeck -n faults create service clusterip stuck --tcp 80; share lubeck stuck
        """,
        causes=True,
        follows=("the export of faults/stuck in lubeck",),
        asked=ACCEPT_AGAIN.format(cluster="broker"),
    ),
    Fault(
        "WriteRefused ValidatingAdmissionPolicy refuses in bergen",
        """
        refuse bergen "" services
        k lubeck -n faults annotate service stuck svc.global.federated.antreaplus.vmware.com=stuck
        """,
        causes=True,
        follows=("Federation local in",),
        asked=ACCEPT_AGAIN.format(cluster="bergen"),
    ),
    Fault(
        "SetTrouble StatefulSet faults/inway in bergen",
        """
        for c in lubeck hamburg bergen; do k $c label namespace faults hanse.dev/accept=true; done
        k broker create namespace faults --dry-run=client -o yaml | k broker apply -f -
        k broker -n faults create service clusterip inway --clusterip None --tcp 80
        make bergen '{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: inway-bergen,
        namespace: faults}, spec: {serviceName: a, replicas: 0, selector: {matchLabels: {a: c}},
        template: {metadata: {labels: {a: c}}, spec: {containers: [{name: a, image: x}]}}}}'
        set inway
        """,
        follows=("StatefulSet faults/inway has 2 of 3 replicas ready: bergen 0/1",),
        restore="""
        k broker -n faults delete statefulset inway
        for c in lubeck hamburg bergen; do k $c label namespace faults hanse.dev/accept-; done
        k broker delete namespace faults
        """,
    ),
    Fault(
        "SetInvalid FederatedStatefulSet shop/store in broker",
        """
        make broker '{apiVersion: hanse.dev/v1alpha1, kind: FederatedStatefulSet, metadata: {
        name: store, namespace: shop}, spec: {template: {spec: {serviceName: etcd, replicas: 1,
        selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
        spec: {containers: [{name: a, image: x}]}}}}}}'
        """,
        asked="k broker -n shop delete federatedstatefulset store",
    ),
    Fault(
        "RecordTooNew StatefulSet shop/store in hamburg",
        """
        part=$(k broker -n hanse-broker get statefulsetparts -o name | grep /store-hamburg-)
        k broker -n hanse-broker patch $part --type merge -p '{"spec":{"schema":99}}'
        """,
        follows=("StatefulSet shop/store has 2 of 3 replicas ready: hamburg 0/1",),
        asked="""
        part=$(k broker -n hanse-broker get statefulsetparts -o name | grep /store-hamburg-)
        k broker -n hanse-broker patch $part --type merge -p '{"spec":{"schema":1}}'
        """,
    ),
    Fault(
        "MembersMoving ClusterMember hanse-broker/bergen in broker",
        """
        k broker -n hanse-broker patch clustermember bergen --subresource status --type merge \
            -p '{"status":{"moving":true}}'
        """,
        asked="""
        k broker -n hanse-broker patch clustermember bergen --subresource status --type merge \
            -p '{"status":{"moving":false}}'
        """,
    ),
    Fault(
        "GuardMissing DaemonSet hanse-system/hanse-guard in hamburg",
        """
        make hamburg '{apiVersion: apps/v1, kind: Deployment, metadata: {name: hanse-agent,
        namespace: hanse-system}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {
        labels: {a: b}}, spec: {containers: [{name: hanse-agent, image: x,
        env: [{name: HANSE_NETWORK_GUARD, value: "true"}]}]}}}}'
        """,
        unseen_by=OBSERVERS,
        restore="k hamburg -n hanse-system delete deployment hanse-agent",
    ),
    Fault(
        "CrdMissing CustomResourceDefinition networkpeerings.arktos.futurewei.com in hamburg",
        "k hamburg delete crd networkpeerings.arktos.futurewei.com",
        unseen_by=OBSERVERS,
    ),
    Fault(  # a definition of old, which lets it through
        "AcceptanceUnreadable AcceptancePolicy default in hamburg",
        """
        k hamburg patch crd acceptancepolicies.hanse.dev --type json -p '[{"op": "replace",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
        "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}]'
        sleep 1
        k hamburg patch acceptancepolicy default --type merge -p '{"spec":{"policies":"all"}}'
        """,
        unseen_by=OBSERVERS,
        asked="""
        k hamburg patch acceptancepolicy default --type merge -p '{"spec":{"policies":null}}'
        """,
    ),
    Fault(
        "AdmissionPolicyOld ValidatingAdmissionPolicyBinding networks.hanse.dev-pool-a in bergen",
        """
        make bergen '{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy,
        metadata: {name: networks.hanse.dev-pool-a}, spec: {matchConstraints: {resourceRules: [{
        apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [services]}]},
        validations: [{expression: "true"}]}}'
        make bergen '{apiVersion: admissionregistration.k8s.io/v1,
        kind: ValidatingAdmissionPolicyBinding, metadata: {name: networks.hanse.dev-pool-a},
        spec: {policyName: networks.hanse.dev-pool-a, validationActions: [Deny]}}'
        """,
        unseen_by=OBSERVERS,
    ),
    Fault(
        "ZoneNotDelegated ConfigMap kube-system/coredns in hamburg",
        """
        k hamburg -n hanse-system create deployment hanse-dns --image x
        k hamburg -n kube-system create configmap coredns --from-literal 'Corefile=.:53 {}'
        """,
        unseen_by=OBSERVERS,
        asked="""
        k hamburg -n kube-system create configmap coredns --dry-run=client -o yaml \
            --from-literal "Corefile=$(hanse dns corefile 10.2.0.53)" | k hamburg replace -f -
        """,
        restore="""
        k hamburg -n hanse-system delete deployment hanse-dns
        k hamburg -n kube-system delete configmap coredns
        """,
    ),
    Fault(  # a Secret of an account here, as of old
        "TokenUnending Secret antrea-plus-system/member-hamburg in lubeck",
        """
        token=$(k lubeck -n antrea-plus-system get secret member-hamburg \
            -o jsonpath='{.data.token}')
        ca=$(k lubeck -n antrea-plus-system get secret member-hamburg \
            -o jsonpath='{.data.ca\\.crt}')
        k lubeck -n antrea-plus-system delete secret member-hamburg
        make lubeck "{apiVersion: v1, kind: Secret, metadata: {name: member-hamburg,
        namespace: antrea-plus-system, annotations: {kubernetes.io/service-account.name: default}},
        type: kubernetes.io/service-account-token, data: {token: $token, ca.crt: $ca}}"
        """,
        unseen_by=OBSERVERS,
    ),
    Fault(
        "TokenUnending Secret antrea-plus-system/member-bergen in hamburg",
        """
        make bergen '{apiVersion: v1, kind: Secret, metadata: {name: unending,
        namespace: antrea-plus-system, annotations: {
        kubernetes.io/service-account.name: hanse-supervisor-hamburg}},
        type: kubernetes.io/service-account-token}'
        k bergen -n antrea-plus-system wait --for=jsonpath='{.data.token}' --timeout=60s \
            secret/unending
        token=$(k bergen -n antrea-plus-system get secret unending -o jsonpath='{.data.token}')
        k hamburg -n antrea-plus-system patch secret member-bergen --type merge \
            -p "{\\"data\\":{\\"token\\":\\"$token\\"}}"
        """,
        unseen_by=OBSERVERS,
        restore="k bergen -n antrea-plus-system delete secret unending",
    ),
    Fault(  # of an Event that soon counts no longer, as those of a node that is mended
        "GuardMissing Node hamburg-node-1 in hamburg",
        f"""
        make hamburg "{{apiVersion: v1, kind: Event, metadata: {{name: web.1, namespace: default}},
        type: Warning, reason: FailedCreatePodSandBox, message: '{GUARD_SILENT}', involvedObject: {{
        kind: Pod, name: web, namespace: default}}, source: {{component: kubelet,
        host: hamburg-node-1}}, lastTimestamp: $(date -u -d '-13 min' +%Y-%m-%dT%H:%M:%SZ)}}"
        """,
        unseen_by=OBSERVERS,
        restore="k hamburg -n default delete pods --all; k hamburg -n default delete event web.1",
    ),
)
"""What can be wrong at once, beyond what users write themselves."""
