"""The settings files of one node: containerd, network plugin, kubelet, kube-proxy, CoreDNS."""

import json
import shutil
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

import yaml
from msgspec import Struct

from hanse.local.real.nodes.image import PAUSE_IMAGE
from hanse.local.real.nodes.support import CNI_PLUGINS

CLUSTER_DOMAIN = "cluster.local"
NODE_FOLDER = "/run/node"
"""A short path: kubelet binds Unix sockets in it, whose addresses have a limit."""


class NodeIpv6(Struct, frozen=True):
    """The IPv6 addresses of a node in a cluster with both families."""

    address: IPv6Address
    pods: IPv6Network
    cluster_pods: IPv6Network


class NodeConfig(Struct, frozen=True):
    """One node: its names, addresses and folder."""

    cluster: str
    name: str
    number: int
    address: IPv4Address
    pods: IPv4Network
    cluster_pods: IPv4Network
    directory: Path
    """Its folder, which its programs see as `NODE_FOLDER`."""
    dns_server: IPv4Address
    """Where our DNS answers the nodes of this cluster."""
    zones: tuple[str, ...]
    """The zones that CoreDNS forwards to our DNS."""
    cgroup: str
    guard: bool = False
    """Whether it runs `hanse guard`."""
    labels: dict[str, str] = {}
    ipv6: NodeIpv6 | None = None

    @property
    def pod_ranges(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The ranges of its pods, IPv4 first."""
        return (self.pods, *((self.ipv6.pods,) if self.ipv6 is not None else ()))


def write_settings(node: NodeConfig) -> None:
    """Write the settings files of all programs of a node to its folder, and link the CNI plugins.

    What a guard has added to the folders `cni` and `plugins` is removed.
    """
    for folder in ("cni", "plugins"):
        shutil.rmtree(node.directory / folder, ignore_errors=True)
        (node.directory / folder).mkdir(parents=True)
    for plugin in CNI_PLUGINS.iterdir():  # a guard adds one of its own
        (node.directory / "plugins" / plugin.name).symlink_to(plugin)
    for name, text in (
        ("containerd.toml", _containerd()),
        ("cni/10-pods.conflist", _network_plugin(node)),
        ("kubelet.yaml", _kubelet(node)),
        ("kube-proxy.yaml", _kube_proxy(node)),
        ("Corefile", _corefile(node)),
    ):
        (node.directory / name).write_text(text)


def _containerd() -> str:
    """The content of containerd's settings file: overlayfs, our pause image, the node's folders."""
    # Without CAP_SYS_RESOURCE, containers cannot have a lower oom_score_adj than containerd.
    return f"""\
version = 2
root = "{NODE_FOLDER}/containerd"
[plugins."io.containerd.internal.v1.opt"]
  path = "{NODE_FOLDER}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{NODE_FOLDER}/plugins"
    conf_dir = "{NODE_FOLDER}/cni"
"""


def _network_plugin(node: NodeConfig) -> str:
    """The CNI configuration: one veth pair for each pod, and routes.

    Between pods of a bridge, answers from behind a Service would bypass connection tracking
    unless the kernel has br_netfilter; routed pods need no such module.
    """
    everywhere = ["0.0.0.0/0", "::/0"][: len(node.pod_ranges)]
    addresses = {
        "type": "host-local",
        "dataDir": f"{NODE_FOLDER}/addresses",
        "ranges": [[{"subnet": str(subnet)}] for subnet in node.pod_ranges],
        "routes": [{"dst": network} for network in everywhere],
    }
    plugin = {"type": "ptp", "ipMasq": False, "ipam": addresses}
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]}, indent=1)


def _kubelet(node: NodeConfig) -> str:
    """The content of kubelet's settings file.

    Clients need a certificate of the cluster's CA, and may do all; pods resolve names at the node's
    CoreDNS; disk pressure evicts no pod.
    """
    return yaml.safe_dump(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "address": str(node.address),
            "tlsCertFile": f"{NODE_FOLDER}/kubelet.crt",
            "tlsPrivateKeyFile": f"{NODE_FOLDER}/kubelet.key",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": f"{NODE_FOLDER}/ca.crt"},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": node.cgroup,
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "evictionHard": {
                "memory.available": "1Mi",
                **dict.fromkeys(("nodefs.available", "imagefs.available"), "0%"),
                **dict.fromkeys(("nodefs.inodesFree", "imagefs.inodesFree"), "0%"),
            },
            "imageGCHighThresholdPercent": 100,
            "clusterDNS": [str(node.address)],
            "clusterDomain": CLUSTER_DOMAIN,
            "resolvConf": "",
            "podLogsDir": "/var/log/pods",
            "nodeStatusUpdateFrequency": "5s",
            "registerWithTaints": [],
        },
        sort_keys=False,
    )


def _kube_proxy(node: NodeConfig) -> str:
    """The content of kube-proxy's settings file: mode nftables, pods of the whole cluster."""
    cluster_pods = (node.cluster_pods, *((node.ipv6.cluster_pods,) if node.ipv6 else ()))
    return yaml.safe_dump(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": f"{NODE_FOLDER}/kube-proxy.kubeconfig"},
            "mode": "nftables",
            "hostnameOverride": node.name,
            "bindAddress": str(node.address),
            "clusterCIDR": ",".join(map(str, cluster_pods)),
            "nftables": {"minSyncPeriod": "50ms"},
            # The machine's own settings: only its first network namespace may change them.
            "conntrack": {"maxPerCore": 0, "min": 0},
        },
        sort_keys=False,
    )


def _corefile(node: NodeConfig) -> str:
    """The content of CoreDNS's Corefile: the cluster's own names, and `zones` forwarded.

    Other names are not forwarded.
    """
    return f"""\
.:53 {{
    errors
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {NODE_FOLDER}/coredns.kubeconfig
        pods insecure
        ttl 5
    }}
}}
{_stub(node)}"""


def _stub(node: NodeConfig) -> str:
    """The server block of a Corefile that forwards the node's `zones` to its `dns_server`.

    Empty without zones.
    """
    if not node.zones:
        return ""
    names = " ".join(f"{zone}:53" for zone in node.zones)
    return f"""\
{names} {{
    errors
    forward . {node.dns_server}
}}
"""


def kubelet_arguments(node: NodeConfig) -> Sequence[str]:
    """The arguments of kubelet that its settings file cannot have: name, IPs, labels, folders."""
    labels = ",".join(f"{key}={value}" for key, value in node.labels.items())
    addresses = (node.address, *((node.ipv6.address,) if node.ipv6 else ()))
    return (
        f"--config={NODE_FOLDER}/kubelet.yaml",
        f"--kubeconfig={NODE_FOLDER}/kubelet.kubeconfig",
        f"--root-dir={NODE_FOLDER}/kubelet",
        f"--cert-dir={NODE_FOLDER}/kubelet/pki",
        f"--hostname-override={node.name}",
        f"--node-ip={','.join(map(str, addresses))}",
        f"--node-labels={labels}",
    )


def guard_arguments(node: NodeConfig) -> Sequence[str]:
    """The arguments of `hanse` that run a node's guard, with its pod ranges of both families."""
    return (
        "guard",
        f"--node={node.name}",
        *(f"--pod-range={one}" for one in node.pod_ranges),
        f"--kubeconfig={NODE_FOLDER}/guard.kubeconfig",
        f"--cni-config={NODE_FOLDER}/cni",
        f"--cni-plugins={NODE_FOLDER}/plugins",
    )
