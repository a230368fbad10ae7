"""The programs a real cluster is made of: which module each comes from, and at which version."""

from pathlib import Path

from msgspec import Struct

KUBERNETES = "v1.35.4"
ETCD = "v3.6.5"
KWOK = "v0.7.0"
COREDNS = "v1.14.7"
HELM = "v3.19.0"

MODULES = Path(__file__).parent / "modules"
"""One folder for each Go module with its pinned `go.mod` and `go.sum`, kept up by `pin`."""


class Program(Struct, frozen=True):
    """One binary: how it is built from its pinned module, and how it tells its version."""

    name: str
    module: str
    package: str
    version: str
    ask_version: tuple[str, ...] = ("--version",)
    stamps: tuple[str, ...] = ()

    @property
    def linker_flags(self) -> str:
        """Without symbol tables, and with the version where the program looks for its own."""
        return " ".join(("-s", "-w", *(f"-X {stamp}" for stamp in self.stamps)))


def _kubernetes(name: str, *ask_version: str) -> Program:
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    stamps = tuple(
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
        module="kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        version=KUBERNETES,
        ask_version=ask_version or ("--version",),
        stamps=stamps,
    )


def _etcd(name: str, package: str, *ask_version: str) -> Program:
    return Program(name, "etcd", f"go.etcd.io/etcd/{package}/v3", ETCD, ask_version)


ETCD_SERVER = _etcd("etcd", "server", "--version")
ETCDCTL = _etcd("etcdctl", "etcdctl", "version")
ETCDUTL = _etcd("etcdutl", "etcdutl", "version")
API_SERVER = _kubernetes("kube-apiserver")
CONTROLLER_MANAGER = _kubernetes("kube-controller-manager")
SCHEDULER = _kubernetes("kube-scheduler")
KUBECTL = _kubernetes("kubectl", "version", "--client")
KWOK_CONTROLLER = Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", KWOK)
COREDNS_SERVER = Program(
    "coredns", "coredns", "github.com/coredns/coredns", COREDNS, ask_version=("-version",)
)
HELM_PROGRAM = Program(
    "helm",
    "helm",
    "helm.sh/helm/v3/cmd/helm",
    HELM,
    ask_version=("version", "--short"),
    stamps=(f"helm.sh/helm/v3/internal/version.version={HELM}",),
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
"""What clusters need to run."""

ALL = (*CLUSTER, KUBECTL, COREDNS_SERVER, HELM_PROGRAM)
"""What tests and benchmarks use besides."""
