"""Tables of all other kinds."""

from tests.differential.cases import (
    CORE,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    MUTATING,
    NETWORKING,
    SERVICES,
    SLICES,
    TABLE,
    case,
    create,
    deployment,
    endpoint_slice,
    get,
    grouped,
    obj,
    service,
    table_case,
)

RBAC = "/apis/rbac.authorization.k8s.io/v1"

NETWORK_SHOWN = (
    table_case(
        "a service", SERVICES, service(selector={"a": "b", "c": "d"}, externalIPs=["203.0.113.1"])
    ),
    table_case(
        "a load balancer",
        SERVICES,
        service(type="LoadBalancer"),
        {
            "loadBalancer": {
                "ingress": [{"ip": "203.0.113.5"}, {"hostname": "a-long-name.example.com"}]
            }
        },
    ),
    table_case(
        "an external name",
        SERVICES,
        service(type="ExternalName", externalName="a.example", ports=[]),
    ),
    table_case(
        "endpoints",
        f"{CORE}/endpoints",
        obj(
            "v1",
            "Endpoints",
            "e",
            subsets=[
                {
                    "addresses": [{"ip": f"198.51.100.{n}"} for n in range(1, 6)],
                    "ports": [{"port": 80}],
                }
            ],
        ),
    ),
    table_case(
        "a slice",
        SLICES,
        endpoint_slice(
            ports=[{"name": "a", "port": 1}, {"name": "b", "port": 2}],
            endpoints=[{"addresses": [f"198.51.100.{n}"]} for n in range(1, 6)],
        ),
    ),
    table_case("an empty slice", SLICES, endpoint_slice(endpoints=[])),
    table_case(
        "an ingress",
        f"{NETWORKING}/ingresses",
        obj(
            "networking.k8s.io/v1",
            "Ingress",
            "i",
            spec={
                "ingressClassName": "x",
                "tls": [{"hosts": ["a.example"]}],
                "rules": [{"host": f"{name}.example"} for name in "abcd"],
            },
        ),
        {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}},
    ),
    table_case(
        "an ingress class",
        "/apis/networking.k8s.io/v1/ingressclasses",
        obj(
            "networking.k8s.io/v1",
            "IngressClass",
            "$ns",
            spec={
                "controller": "a.b/c",
                "parameters": {"apiGroup": "k.example.com", "kind": "P", "name": "p"},
            },
        ),
    ),
    table_case(
        "a network policy",
        f"{NETWORKING}/networkpolicies",
        obj("networking.k8s.io/v1", "NetworkPolicy", "n", spec={"podSelector": {}}),
    ),
)

OTHERS_SHOWN = (
    table_case("a namespace", "/api/v1/namespaces", obj("v1", "Namespace", "$ns-n")),
    table_case("a secret", f"{CORE}/secrets", obj("v1", "Secret", "k", stringData={"a": "b"})),
    table_case("an account", f"{CORE}/serviceaccounts", obj("v1", "ServiceAccount", "r")),
    table_case(
        "a node",
        "/api/v1/nodes",
        obj(
            "v1",
            "Node",
            "$ns",
            metadata={"labels": {"node-role.kubernetes.io/edge": ""}},
            spec={"unschedulable": True},
        ),
        {
            "conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "203.0.113.4"}],
            "nodeInfo": {
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": "6.1",
                "osImage": "Linux",
                "containerRuntimeVersion": "x://1",
                "kubeletVersion": "v1.35.4",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    ),
    table_case(
        "an event",
        f"{CORE}/events",
        obj(
            "v1",
            "Event",
            "e",
            involvedObject={"kind": "Pod", "name": "p", "namespace": "$ns", "fieldPath": "spec"},
            reason="R",
            message=" m\n",
            type="Warning",
            count=3,
            source={"component": "c", "host": "h"},
        ),
    ),
    table_case(
        "a volume",
        "/api/v1/persistentvolumes",
        obj(
            "v1",
            "PersistentVolume",
            "$ns",
            spec={
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "hostPath": {"path": "/x"},
                "storageClassName": "s",
                "claimRef": {"namespace": "$ns", "name": "v"},
            },
        ),
    ),
    table_case(
        "a storage class",
        "/apis/storage.k8s.io/v1/storageclasses",
        obj("storage.k8s.io/v1", "StorageClass", "$ns", provisioner="a.b/c"),
    ),
    table_case(
        "a lease",
        LEASES,
        obj("coordination.k8s.io/v1", "Lease", "l", spec={"holderIdentity": "me"}),
    ),
    table_case("a role", f"{RBAC}/namespaces/$ns/roles", obj(RBAC[6:], "Role", "r", rules=[])),
    table_case(
        "a role binding",
        f"{RBAC}/namespaces/$ns/rolebindings",
        obj(
            RBAC[6:],
            "RoleBinding",
            "b",
            roleRef={"apiGroup": RBAC[6:-3], "kind": "Role", "name": "r"},
            subjects=[
                {"apiGroup": RBAC[6:-3], "kind": "User", "name": "ada"},
                {"apiGroup": RBAC[6:-3], "kind": "Group", "name": "g"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "$ns"},
            ],
        ),
    ),
    table_case(
        "a priority class",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        obj("scheduling.k8s.io/v1", "PriorityClass", "$ns", value=5),
    ),
    table_case(
        "webhooks",
        MUTATING,
        obj("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "$ns", webhooks=[]),
    ),
    table_case(
        "an admission policy",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        obj(
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicy",
            "$ns",
            spec={
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["podtemplates"],
                        }
                    ]
                },
                "validations": [{"expression": "true"}],
            },
        ),
    ),
    case("definitions", get(CRDS, accept=TABLE, query={"fieldSelector": "metadata.name=none"})),
    case(
        "a scale",
        create(DEPLOYMENTS, deployment(), setup=True),
        get(f"{DEPLOYMENTS}/d/scale", accept=TABLE),
    ),
)

CASES = [*grouped("shown", NETWORK_SHOWN), *grouped("shown", OTHERS_SHOWN)]
