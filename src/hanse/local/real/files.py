"""What a cluster's servers read: keys, certificates, kubeconfigs and their own configuration."""

from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hanse.kube.access import Access, Endpoint, Identity
from hanse.kube.authority import Authority, Issued
from hanse.local.kubeconfig import Context, write_kubeconfig, write_private
from hanse.local.real.config import Layout
from hanse.local.real.kwok import kwok_configuration


def prepare(layout: Layout) -> Access:
    """Write a cluster's files, and give back how its administrator reaches it.

    The authority and the key of service-account tokens are kept from an earlier run, so that
    credentials stay valid when a cluster is started again over its data.
    """
    keys = layout.directory / "pki"
    layout.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    layout.directory.chmod(0o700)
    keys.mkdir(exist_ok=True, mode=0o700)
    layout.logs.mkdir(parents=True, exist_ok=True)
    authority = _authority(keys, layout.name)
    _keep(keys, "api-server", authority.server("kube-apiserver", layout.hosts))
    _service_account_key(keys / "service-accounts.key")
    _write_configurations(layout, authority)
    return _access(layout, authority, "admin", "system:masters")


def _write_configurations(layout: Layout, authority: Authority) -> None:
    users = {
        "controller-manager": ("system:kube-controller-manager",),
        "scheduler": ("system:kube-scheduler",),
        # kwok plays every kubelet at once, for which Kubernetes has no role of its own.
        "kwok": ("kwok", "system:masters"),
    }
    for file, (user, *groups) in users.items():
        access = _access(layout, authority, user, *groups)
        context = Context(layout.name, access, user)
        write_kubeconfig(layout.directory / f"{file}.kubeconfig", [context])
    (layout.directory / "scheduler.yaml").write_text(_scheduler_configuration())
    (layout.directory / "kwok.yaml").write_text(kwok_configuration())


def _access(layout: Layout, authority: Authority, user: str, *groups: str) -> Access:
    issued = authority.client(user, groups)
    return Access(
        Endpoint(layout.server, ca=authority.certificate),
        Identity(certificate=issued.certificate, key=issued.key),
    )


def _authority(keys: Path, name: str) -> Authority:
    certificate, key = keys / "ca.crt", keys / "ca.key"
    if certificate.is_file() and key.is_file():
        return Authority.load(Issued(certificate.read_bytes(), key.read_bytes()))
    authority = Authority.create(f"{name} of hanse")
    _keep(keys, "ca", authority.kept)
    return authority


def _keep(keys: Path, name: str, issued: Issued) -> None:
    write_private(keys / f"{name}.key", issued.key)
    (keys / f"{name}.crt").write_bytes(issued.certificate)


def _service_account_key(path: Path) -> None:
    if path.is_file():
        return
    key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        # The API server finds the public key in this form only.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    write_private(path, key)


def _scheduler_configuration() -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": "scheduler.kubeconfig", "qps": 500, "burst": 1000},
            "leaderElection": {"leaderElect": False},
        },
        sort_keys=False,
    )
