"""The programs of a real cluster: the Go module and the version of each."""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

KUBERNETES_VERSIONS = {"1.35": "v1.35.4", "1.34": "v1.34.4", "1.33": "v1.33.13"}
"""The release of each minor version that clusters can run; the first is the default."""

VERSION_VARIABLE = "HANSE_KUBERNETES"
"""The environment variable that chooses a minor version."""


def chosen_minor(environment: Mapping[str, str]) -> str:
    """The minor version that the environment asks for, else the first; exits for an unknown one."""
    minor = environment.get(VERSION_VARIABLE) or next(iter(KUBERNETES_VERSIONS))
    if minor not in KUBERNETES_VERSIONS:
        known = ", ".join(KUBERNETES_VERSIONS)
        sys.exit(f"error: {VERSION_VARIABLE} is {minor}; clusters can run {known}")
    return minor


KUBERNETES_MINOR = chosen_minor(os.environ)
KUBERNETES = KUBERNETES_VERSIONS[KUBERNETES_MINOR]
KUBERNETES_MODULE = f"kubernetes-{KUBERNETES_MINOR}"
ETCD = "v3.6.5"
KWOK = "v0.7.0"
COREDNS = "v1.14.7"
HELM = "v3.19.0"
EXTERNAL_DNS = "v0.23.0"

MODULES = Path(__file__).parent / "modules"
"""One folder for each Go module with its pinned `go.mod` and `go.sum`, written by `pin_modules`."""

OWN_MODULES = ("netcheck", "externaldns")
"""Modules whose source is here."""


def _source_version(module: str) -> str:
    """A version `v1.0.N` of one of our own modules, N by the hash of its `main.go`."""
    source = (MODULES / module / "main.go").read_bytes()
    return f"v1.0.{int(hashlib.sha256(source).hexdigest()[:8], 16)}"


_NETCHECK_VERSION = _source_version("netcheck")


class Program(Struct, frozen=True):
    """One binary: how it is built from its pinned module, and how it prints its version."""

    name: str
    module: str
    package: str
    version: str
    version_arguments: tuple[str, ...] = ("--version",)
    version_variables: tuple[str, ...] = ()
    go: tuple[int, int] = (1, 25)
    """The oldest Go that compiles it."""

    @property
    def linker_flags(self) -> str:
        """Flags of `go build -ldflags` that strip symbol tables and set the version variables."""
        return " ".join(("-s", "-w", *(f"-X {variable}" for variable in self.version_variables)))


def _kubernetes(name: str, *version_arguments: str) -> Program:
    """A program of the Kubernetes repository in the chosen release, with the version linked in.

    Without arguments its version is printed by `--version`.
    """
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    version_variables = tuple(
        f"k8s.io/{library}.{variable}={value}"
        for library in ("component-base/version", "client-go/pkg/version")
        for variable, value in (
            ("gitVersion", KUBERNETES),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitCommit", ""),
        )
    )
    return Program(
        name=name,
        module=KUBERNETES_MODULE,
        package=f"k8s.io/kubernetes/cmd/{name}",
        version=KUBERNETES,
        version_arguments=version_arguments or ("--version",),
        version_variables=version_variables,
    )


def _etcd_program(name: str, package: str, *version_arguments: str) -> Program:
    """A program of the etcd repository, whose folder there is `package`, at version `ETCD`."""
    return Program(name, "etcd", f"go.etcd.io/etcd/{package}/v3", ETCD, version_arguments)


ETCD_SERVER = _etcd_program("etcd", "server", "--version")
ETCDCTL = _etcd_program("etcdctl", "etcdctl", "version")
ETCDUTL = _etcd_program("etcdutl", "etcdutl", "version")
API_SERVER = _kubernetes("kube-apiserver")
CONTROLLER_MANAGER = _kubernetes("kube-controller-manager")
SCHEDULER = _kubernetes("kube-scheduler")
KUBECTL = _kubernetes("kubectl", "version", "--client")
KUBELET = _kubernetes("kubelet")
KUBE_PROXY = _kubernetes("kube-proxy")
KWOK_CONTROLLER = Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", KWOK)
COREDNS_SERVER = Program(
    "coredns", "coredns", "github.com/coredns/coredns", COREDNS, version_arguments=("-version",)
)
HELM_PROGRAM = Program(
    "helm",
    "helm",
    "helm.sh/helm/v3/cmd/helm",
    HELM,
    version_arguments=("version", "--short"),
    version_variables=(f"helm.sh/helm/v3/internal/version.version={HELM}",),
)
EXTERNAL_DNS_PROGRAM = Program(
    "external-dns",
    "externaldns",
    "hanse.dev/externaldns",
    EXTERNAL_DNS,
    version_variables=(f"main.version={EXTERNAL_DNS}",),
    go=(1, 27),
)
"""ExternalDNS without the providers of clouds, which a test does not need and builds for long."""
NETCHECK = Program(
    "netcheck",
    "netcheck",
    "hanse.dev/netcheck",
    _NETCHECK_VERSION,
    version_variables=(f"main.version={_NETCHECK_VERSION}",),
)

CLUSTER = (
    API_SERVER,
    CONTROLLER_MANAGER,
    SCHEDULER,
    ETCD_SERVER,
    ETCDCTL,
    ETCDUTL,
    KWOK_CONTROLLER,
)
"""The programs that clusters need to run."""

NODE = (KUBELET, KUBE_PROXY, COREDNS_SERVER, NETCHECK)
"""The programs that nodes with containers need as well."""

ALL = (*CLUSTER, *NODE, KUBECTL, HELM_PROGRAM)
"""Also the programs that tests and benchmarks use."""

EXTRA = (EXTERNAL_DNS_PROGRAM,)
"""Programs of single tests, which are skipped where these cannot be built."""
