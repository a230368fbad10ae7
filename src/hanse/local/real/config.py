"""The configuration of one real cluster: command lines, certificates, kubeconfigs."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import assert_never

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec import Struct
from msgspec.structs import replace

from hanse.kube.certificates import CertificateAuthority
from hanse.kube.client_config import ClientConfig, Identity, ServerEndpoint
from hanse.kube.server_tls import KeyPair
from hanse.local.kubeconfig import Context, write_kubeconfig, write_private_file
from hanse.local.ranges import AddressRanges
from hanse.local.real.kwok import kwok_configuration
from hanse.local.real.nodes.cluster_nodes import EGRESS_SOCKET
from hanse.local.real.nodes.settings import NodeConfig
from hanse.local.real.programs import (
    API_SERVER,
    CONTROLLER_MANAGER,
    ETCD_SERVER,
    KWOK_CONTROLLER,
    SCHEDULER,
)
from hanse.local.real.server import ServerCommand

ETCD_CLIENTS = "unix://etcd.sock:0"
"""A Unix socket in the cluster's folder: it needs no port, and other users cannot open it."""

ETCD_PEERS = "unix://peer.sock:0"

BROKER_CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    "resourcequota-controller",
)
"""Garbage collection, aggregated roles, quotas, what every namespace and ServiceAccount has."""

WORKLOAD_CONTROLLERS = (
    "*",
    "-node-ipam-controller",
    "-persistentvolume-attach-detach-controller",
    "-horizontal-pod-autoscaler-controller",
)
"""The default controllers, except those that need real machines."""


class Workloads(Struct, frozen=True):
    """A cluster that runs pods, on simulated nodes."""

    nodes: int = 3


class Broker(Struct, frozen=True):
    """A cluster that only stores objects."""


class Containers(Struct, frozen=True):
    """A cluster that runs pods as containers."""

    nodes: tuple[NodeConfig, ...]


Role = Workloads | Containers | Broker


class ClusterConfig(Struct, frozen=True):
    """The folders, port and address ranges of one cluster."""

    name: str
    role: Role
    ranges: AddressRanges
    port: int
    directory: Path
    logs: Path

    @property
    def server(self) -> str:
        """The URL of the API server, on loopback."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The subject alternative names of the API server's certificate: names and addresses.

        Loopback, the names and the ClusterIP of the Service `kubernetes`, and the Endpoints'
        address.
        """
        names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        cluster_ip, endpoint = str(self.ranges.services[1]), str(self.ranges.api_server)
        return (*names, "127.0.0.1", cluster_ip, endpoint)


_ProgramArguments = tuple[str, tuple[str, ...]]
"""A program and its arguments."""


def server_commands(
    config: ClusterConfig, binaries: Mapping[str, Path]
) -> tuple[ServerCommand, ...]:
    """The command lines of a cluster's servers by its role; each depends on those before it.

    A broker has neither scheduler nor kwok; only simulated nodes have kwok. None is started.
    """
    servers: tuple[_ProgramArguments, ...]
    match config.role:
        case Broker():
            servers = (
                _etcd_arguments(),
                _api_server_arguments(config),
                _controller_manager_arguments(BROKER_CONTROLLERS),
            )
        case Workloads():
            servers = (
                _etcd_arguments(),
                _api_server_arguments(config),
                _controller_manager_arguments(WORKLOAD_CONTROLLERS),
                (SCHEDULER.name, ("--config=scheduler.yaml", "--secure-port=0")),
                _kwok_arguments(config),
            )
        case Containers():
            servers = (
                _etcd_arguments(),
                _api_server_arguments(config, *_NODE_ACCESS),
                _controller_manager_arguments(WORKLOAD_CONTROLLERS),
                (SCHEDULER.name, ("--config=scheduler.yaml", "--secure-port=0")),
            )
        case _:
            assert_never(config.role)
    return tuple(
        ServerCommand(
            cluster=config.name,
            program=program,
            executable=binaries[program],
            arguments=arguments,
            directory=config.directory,
            log=config.logs / f"{program}.log",
            port=config.port if program == API_SERVER.name else None,
        )
        for program, arguments in servers
    )


def _etcd_arguments() -> _ProgramArguments:
    """The program and arguments of etcd, on Unix sockets and without fsync."""
    return ETCD_SERVER.name, (
        "--name=default",
        "--data-dir=etcd",
        f"--listen-client-urls={ETCD_CLIENTS}",
        f"--advertise-client-urls={ETCD_CLIENTS}",
        f"--listen-peer-urls={ETCD_PEERS}",
        f"--initial-advertise-peer-urls={ETCD_PEERS}",
        f"--initial-cluster=default={ETCD_PEERS}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    )


_NODE_ACCESS = (
    "--allow-privileged=true",
    "--egress-selector-config-file=egress.yaml",
    "--kubelet-preferred-address-types=InternalIP",
    "--kubelet-certificate-authority=pki/ca.crt",
    "--kubelet-client-certificate=pki/kubelet-client.crt",
    "--kubelet-client-key=pki/kubelet-client.key",
)
"""How an API server reaches real kubelets."""


def _api_server_arguments(config: ClusterConfig, *more: str) -> _ProgramArguments:
    """The program and arguments of the API server, with `more` at the end."""
    return API_SERVER.name, (
        f"--etcd-servers={ETCD_CLIENTS}",
        "--bind-address=127.0.0.1",
        f"--secure-port={config.port}",
        f"--advertise-address={config.ranges.api_server}",
        f"--service-cluster-ip-range={','.join(map(str, _service_ranges(config)))}",
        "--authorization-mode=Node,RBAC",
        "--client-ca-file=pki/ca.crt",
        "--tls-cert-file=pki/api-server.crt",
        "--tls-private-key-file=pki/api-server.key",
        # Without it, a server that is stopped waits until its clients end their watches.
        "--shutdown-watch-termination-grace-period=1s",
        f"--service-account-issuer=https://kubernetes.{config.name}.hanse.local",
        "--service-account-key-file=pki/service-accounts.key",
        "--service-account-signing-key-file=pki/service-accounts.key",
        "--profiling=false",
        *more,
    )


def _service_ranges(config: ClusterConfig) -> tuple[IPv4Network | IPv6Network, ...]:
    """The ranges of Services: IPv4, and also IPv6 if a node with containers has it."""
    nodes = config.role.nodes if isinstance(config.role, Containers) else ()
    both = any(node.ipv6 is not None for node in nodes)
    return (config.ranges.services, *((config.ranges.ipv6.services,) if both else ()))


def _controller_manager_arguments(enabled: tuple[str, ...]) -> _ProgramArguments:
    """The program and arguments of the controller manager with the enabled controllers."""
    return CONTROLLER_MANAGER.name, (
        "--kubeconfig=controller-manager.kubeconfig",
        f"--controllers={','.join(enabled)}",
        "--leader-elect=false",
        "--secure-port=0",
        "--use-service-account-credentials=true",
        "--service-account-private-key-file=pki/service-accounts.key",
        "--root-ca-file=pki/ca.crt",
        # The default is 15 s.
        "--pvclaimbinder-sync-period=1s",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    )


def _kwok_arguments(config: ClusterConfig) -> _ProgramArguments:
    """The program and arguments of kwok, which manages all nodes and the addresses of pods."""
    return KWOK_CONTROLLER.name, (
        "--kubeconfig=kwok.kubeconfig",
        "--config=kwok.yaml",
        f"--cidr={config.ranges.pods[1]}/{config.ranges.pods.prefixlen}",
        f"--node-ip={config.ranges.nodes[-3]}",
        "--node-port=0",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
    )


def write_config_files(config: ClusterConfig) -> ClientConfig:
    """Write a cluster's certificates and configuration files; returns the administrator's access.

    The CA and the ServiceAccount signing key of an earlier run are reused, so that credentials
    stay valid when a cluster is restarted with its data.
    """
    keys = config.directory / "pki"
    config.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    config.directory.chmod(0o700)
    keys.mkdir(exist_ok=True, mode=0o700)
    config.logs.mkdir(parents=True, exist_ok=True)
    authority = _load_or_create_ca(keys, config.name)
    _write_certificate(keys, "api-server", authority.server("kube-apiserver", config.hosts))
    _ensure_service_account_key(keys / "service-accounts.key")
    _write_kubeconfigs_and_settings(config, authority)
    return _user_config(config, authority, "admin", "system:masters")


def _write_kubeconfigs_and_settings(config: ClusterConfig, authority: CertificateAuthority) -> None:
    """Write the kubeconfigs of the servers and the settings of scheduler and kwok.

    Each kubeconfig has a new client certificate. With containers also what `_write_node_access`
    writes.
    """
    users = {
        "controller-manager": ("system:kube-controller-manager",),
        "scheduler": ("system:kube-scheduler",),
        # kwok acts as every kubelet, for which Kubernetes has no built-in role.
        "kwok": ("kwok", "system:masters"),
    }
    for file, (user, *groups) in users.items():
        access = _user_config(config, authority, user, *groups)
        context = Context(config.name, access, user)
        write_kubeconfig(config.directory / f"{file}.kubeconfig", [context])
    (config.directory / "scheduler.yaml").write_text(_scheduler_configuration())
    (config.directory / "kwok.yaml").write_text(kwok_configuration())
    if isinstance(config.role, Containers):
        _write_node_access(config, config.role.nodes, authority)


def _write_node_access(
    config: ClusterConfig, nodes: Sequence[NodeConfig], authority: CertificateAuthority
) -> None:
    """Write the certificates and kubeconfigs of nodes, and how the API server reaches them.

    On each node kubelet, kube-proxy, CoreDNS and the guard have a kubeconfig of their own.
    """
    keys = config.directory / "pki"
    _write_certificate(keys, "kubelet-client", authority.client("kube-apiserver-kubelet-client"))
    (config.directory / "egress.yaml").write_text(_egress_configuration())
    endpoint = f"https://{config.ranges.api_server}:{config.port}"
    for node in nodes:
        node.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_certificate(
            node.directory, "kubelet", authority.server(node.name, (node.name, str(node.address)))
        )
        (node.directory / "ca.crt").write_bytes(authority.certificate)
        users = {
            "kubelet": (f"system:node:{node.name}", "system:nodes"),
            "kube-proxy": ("system:kube-proxy",),
            # Kubernetes has no built-in role for CoreDNS.
            "coredns": ("coredns", "system:masters"),
            "guard": ("hanse-guard", "system:masters"),
        }
        for file, (user, *groups) in users.items():
            access = _user_config(config, authority, user, *groups)
            access = replace(access, endpoint=replace(access.endpoint, url=endpoint))
            context = Context(config.name, access, user)
            write_kubeconfig(node.directory / f"{file}.kubeconfig", [context])


def _user_config(
    config: ClusterConfig, authority: CertificateAuthority, user: str, *groups: str
) -> ClientConfig:
    """The access of a user with these groups, by a new client certificate."""
    issued = authority.client(user, groups)
    return ClientConfig(
        ServerEndpoint(config.server, ca=authority.certificate),
        Identity(certificate=issued.certificate, key=issued.key),
    )


def _load_or_create_ca(keys: Path, name: str) -> CertificateAuthority:
    """Load the CA from the folder, or, if a file is missing, create it and write both files."""
    certificate, key = keys / "ca.crt", keys / "ca.key"
    if certificate.is_file() and key.is_file():
        return CertificateAuthority.load(KeyPair(certificate.read_bytes(), key.read_bytes()))
    authority = CertificateAuthority.create(f"{name} of hanse")
    _write_certificate(keys, "ca", authority.key_pair)
    return authority


def _write_certificate(keys: Path, name: str, issued: KeyPair) -> None:
    """Write `NAME.key`, readable by the owner only, and `NAME.crt` to the folder."""
    write_private_file(keys / f"{name}.key", issued.key)
    (keys / f"{name}.crt").write_bytes(issued.certificate)


def _ensure_service_account_key(path: Path) -> None:
    """Write a new signing key for tokens, unless the file exists."""
    if path.is_file():
        return
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        # The API server derives the public key only from this format.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    write_private_file(path, key)


def _egress_configuration() -> str:
    """The API server's egress selector file: nodes are reached by the proxy on a Unix socket."""
    transport = {"uds": {"udsName": EGRESS_SOCKET}}
    connection = {"proxyProtocol": "HTTPConnect", "transport": transport}
    return yaml.safe_dump(
        {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        },
        sort_keys=False,
    )


def _scheduler_configuration() -> str:
    """The scheduler's configuration file: no leader election, high client limits."""
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": "scheduler.kubeconfig", "qps": 500, "burst": 1000},
            "leaderElection": {"leaderElect": False},
        },
        sort_keys=False,
    )
