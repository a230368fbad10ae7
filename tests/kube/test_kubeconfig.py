"""Kubeconfigs: merged as kubectl merges them, and refused in words that say what to do."""

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from hanse.kube.client_config import Identity
from hanse.kube.credentials import from_secret, kubeconfig_paths, load_kubeconfig
from hanse.kube.errors import BadCredentials
from hanse.kube.kubeconfig import Kubeconfig, KubeconfigSource, ResolvedContext

CLUSTER = {"server": "https://lubeck.example:6443"}


def config(
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    current: str = "work",
    **other: Any,
) -> bytes:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lubeck", "cluster": {**CLUSTER, **(cluster or {})}}],
        "users": [{"name": "jane", "user": user or {}}],
        "contexts": [
            {
                "name": "work",
                "context": {"cluster": "lubeck", "user": "jane", "namespace": "shop"},
            }
        ],
        "current-context": current,
    }
    return yaml.safe_dump({**document, **other}).encode()


def resolve(text: bytes, *, folder: Path | None = None, trusted: bool = True) -> ResolvedContext:
    return Kubeconfig([KubeconfigSource(text, "config.yaml", folder)], trusted=trusted).resolve()


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_a_context_names_the_server_the_user_and_the_namespace() -> None:
    text = config(
        {"tls-server-name": "api", "certificate-authority-data": encoded(b"CA")},
        {"token": "t0k3n", "as": "kim", "as-groups": ["ops", "dev"]},
    )

    access = resolve(text).config

    assert access.endpoint.url == "https://lubeck.example:6443"
    assert (access.endpoint.ca, access.endpoint.server_name) == (b"CA", "api")
    assert access.identity.token == "t0k3n"
    assert access.identity.impersonate == (
        ("Impersonate-User", "kim"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Group", "dev"),
    )
    assert access.namespace == "shop"


def test_secrets_are_never_shown() -> None:
    resolved = resolve(
        config(
            user={
                "token": "t0k3n",
                "client-key-data": encoded(b"KEY"),
                "client-certificate-data": encoded(b"CERT"),
            }
        )
    )

    assert "t0k3n" not in repr(resolved)
    assert "KEY" not in repr(resolved)
    assert repr(resolved.config.identity) == "Identity(<secret>)"


def test_files_are_relative_to_the_kubeconfig_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / "pki" / name).write_text(name)
    (tmp_path / "token").write_text("from-file\n")

    resolved = resolve(
        config(
            {"certificate-authority": "pki/ca.crt"},
            {
                "client-certificate": "pki/tls.crt",
                "client-key": str(tmp_path / "pki/tls.key"),
                "token": "inline",
                "tokenFile": "token",
            },
        ),
        folder=tmp_path,
    )

    assert resolved.config.endpoint.ca == b"ca.crt"
    assert resolved.config.identity == Identity("from-file", b"tls.crt", b"tls.key")
    assert {file.name for file in resolved.files} == {"ca.crt", "tls.crt", "tls.key", "token"}


def test_empty_fields_are_as_good_as_none() -> None:
    text = b"""
clusters: [{name: a, cluster: {server: "http://a", certificate-authority: }}]
users:
contexts: [{name: x, context: {cluster: a, user: , namespace: null}}]
current-context: x
"""

    assert resolve(text).config.endpoint.url == "http://a"


def test_of_several_files_the_first_to_name_something_counts_in_whole(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "missing"))
    first.write_bytes(config(user={"username": "only-this"}))
    second.write_bytes(
        config(
            {"server": "https://ignored.example"},
            {"token": "ignored"},
            contexts=[{"name": "more", "context": {"cluster": "lubeck", "user": "jane"}}],
        )
    )

    merged = load_kubeconfig(kubeconfig_paths(f"{third}:{first}::{second}"))

    assert merged.contexts == ("work", "more")
    assert merged.current == "work"
    access = merged.resolve("more").config
    assert access.endpoint.url == "https://lubeck.example:6443"
    assert access.identity == Identity(username="only-this")


def test_a_plugin_is_found_beside_the_kubeconfig_and_reported_of_the_cluster(
    tmp_path: Path,
) -> None:
    text = config(
        {
            "certificate-authority-data": encoded(b"CA"),
            "extensions": [
                {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
            ],
        },
        {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "./bin/login",
                "args": ["--now"],
                "env": [{"name": "A", "value": "b"}],
                "interactiveMode": "Never",
                "provideClusterInfo": True,
            }
        },
    )

    plugin = resolve(text, folder=tmp_path).plugin

    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin/login")
    assert (plugin.args, plugin.env, plugin.interactive) == (("--now",), (("A", "b"),), "Never")
    assert msgspec.json.decode(plugin.cluster) == {
        "server": "https://lubeck.example:6443",
        "certificate-authority-data": encoded(b"CA"),
        "config": {"audience": "x"},
    }


EXEC = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (config(user=EXEC), "exec"),
        (config(user={"auth-provider": {"name": "gcp"}}), "auth-provider"),
        (config({"proxy-url": "http://proxy"}), "proxy-url"),
        (config({"certificate-authority": "/etc/ca"}), "certificate-authority"),
        (config(user={"client-certificate": "/c", "client-key": "/k"}), "client-certificate"),
        (
            config(user={"client-certificate-data": encoded(b"C"), "client-key": "/k"}),
            "client-key",
        ),
        (config(user={"tokenFile": "/etc/passwd"}), "tokenFile"),
    ],
    ids=["exec", "auth-provider", "proxy-url", "ca", "certificate", "key", "token-file"],
)
def test_a_kubeconfig_from_a_secret_uses_nothing_of_this_machine(text: bytes, field: str) -> None:
    with pytest.raises(BadCredentials, match=f"member a: .*: {field} is refused .* from a Secret"):
        from_secret(text, origin="member a")


@pytest.mark.anyio
async def test_a_kubeconfig_from_a_secret_may_hold_tokens_and_certificates() -> None:
    text = config({"certificate-authority-data": encoded(b"CA")}, {"token": "t0k3n"})

    access = await from_secret(text, origin="member a").config()

    assert (access.endpoint.ca, access.identity.token) == (b"CA", "t0k3n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "config.yaml: not YAML"),
        (b"\xff\xfe\xfa", "config.yaml: not YAML"),
        (b"[1]", "config.yaml: Expected `object`"),
        (b"{clusters: [{name: 7}]}", r"config.yaml: .*clusters\[0\]\.name"),
        (config(current=""), "config.yaml: no current-context"),
        (config(current="play"), "no context 'play'; there is: work"),
        (config(clusters=[]), "no cluster 'lubeck' of context 'work'; there is: none"),
        (config(users=[]), "no user 'jane' of context 'work'"),
        (config({"server": "lubeck:6443"}), "cluster 'lubeck': server is not an http"),
        (config({"server": "https://lubeck:99999"}), "cluster 'lubeck': server has no port"),
        (config({"proxy-url": "socks5://x"}), "cluster 'lubeck': proxy-url must be http"),
        (config({"certificate-authority": "none.crt"}), "certificate-authority: cannot read"),
        (config({"certificate-authority-data": "x"}), "certificate-authority-data is not base64"),
        (config(user={"auth-provider": {"name": "gcp"}}), "auth-provider is not supported; use an"),
        (config(user={"client-key-data": encoded(b"K")}), "user 'jane': client-certificate and"),
        (config(user={"token": "a\nb"}), "user 'jane': the token is not one line"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value[:40],
)
def test_what_is_wrong_is_named_with_its_place(text: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadCredentials, match=message):
        resolve(text, folder=tmp_path)


def test_broken_yaml_is_reported_without_quoting_it() -> None:
    with pytest.raises(BadCredentials) as raised:
        resolve(b"users: [{token: s3cr3t")

    assert "s3cr3t" not in str(raised.value)
    assert raised.value.__cause__ is None
