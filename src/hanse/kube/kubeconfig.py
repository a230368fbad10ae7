"""Parses and merges kubeconfig files, and resolves a context to a client configuration."""

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml
from msgspec import Struct

from hanse.kube.client_config import ClientConfig, ExecPlugin, Identity, ServerEndpoint
from hanse.kube.errors import BadCredentials
from hanse.model.yaml_input import load_yaml

T = TypeVar("T")


class _Fields(Struct, frozen=True, rename="kebab"):
    """A section of the file; unknown fields are ignored."""


class _ClusterFields(_Fields, frozen=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[dict[str, Any]] | None = None


class _Variable(Struct, frozen=True):
    name: str
    value: str


class _Exec(Struct, frozen=True, rename="camel"):
    command: str
    api_version: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False


class _UserFields(_Fields, frozen=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] | None = None
    exec: _Exec | None = None
    auth_provider: dict[str, Any] | None = None


class _ContextFields(_Fields, frozen=True, rename="kebab"):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(Struct, frozen=True):
    name: str
    cluster: _ClusterFields = _ClusterFields()


class _NamedUser(Struct, frozen=True):
    name: str
    user: _UserFields | None = None


class _NamedContext(Struct, frozen=True):
    name: str
    context: _ContextFields = _ContextFields()


class _KubeconfigFields(_Fields, frozen=True, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str | None = None


class KubeconfigSource(Struct, frozen=True):
    """The text of one kubeconfig and its origin; without a folder it may not name files."""

    text: bytes
    origin: str
    folder: Path | None = None


class ResolvedContext(Struct, frozen=True):
    """A resolved context: client configuration, exec plugin if any, and files it was read from."""

    config: ClientConfig
    plugin: ExecPlugin | None = None
    files: tuple[Path, ...] = ()


class _Entry(Struct, frozen=True):
    """One named section and its source, to which its paths are relative."""

    value: Any
    source: KubeconfigSource


class Kubeconfig:
    """Several kubeconfig texts merged as kubectl does: the first section of a name counts.

    An untrusted one (from a Secret) may not run programs, name local files or set a proxy.
    """

    def __init__(self, sources: Iterable[KubeconfigSource], *, trusted: bool) -> None:
        """Of several entries of a name the first counts, and so does the first current context.

        Raises `BadCredentials` for a source that is no kubeconfig. One that is not `trusted` may
        name no files, plugins or proxies: `resolve` refuses it.
        """
        self.current = ""
        self._trusted = trusted
        self._clusters: dict[str, _Entry] = {}
        self._users: dict[str, _Entry] = {}
        self._contexts: dict[str, _Entry] = {}
        self._origins: list[str] = []
        for source in sources:
            document = _parse_document(source)
            self._origins.append(source.origin)
            self.current = self.current or document.current_context or ""
            for cluster in document.clusters or ():
                self._clusters.setdefault(cluster.name, _Entry(cluster.cluster, source))
            for user in document.users or ():
                self._users.setdefault(user.name, _Entry(user.user or _UserFields(), source))
            for context in document.contexts or ():
                self._contexts.setdefault(context.name, _Entry(context.context, source))

    @property
    def contexts(self) -> tuple[str, ...]:
        """The names of all contexts."""
        return tuple(self._contexts)

    def resolve(self, context: str = "") -> ResolvedContext:
        """Resolve a context, by default the current one, and read the files that it names.

        Raises `BadCredentials`. An exec plugin is returned, not run.
        """
        name = context or self.current
        if not name:
            raise BadCredentials(f"{self._origin_names}: no current-context; name a context")
        section: _ContextFields = self._find_entry(self._contexts, "context", name).value
        cluster = self._find_entry(self._clusters, "cluster", section.cluster, f"context {name!r}")
        user = _Entry(_UserFields(), cluster.source)
        if section.user:
            user = self._find_entry(self._users, "user", section.user, f"context {name!r}")
        reader = _ContextReader(self._trusted)
        endpoint = reader.endpoint(cluster, f"cluster {section.cluster!r}")
        label = f"user {section.user!r}"
        config = ClientConfig(endpoint, reader.identity(user, label), section.namespace)
        plugin = reader.plugin(user, cluster, endpoint, label)
        return ResolvedContext(config, plugin, tuple(reader.files))

    @property
    def _origin_names(self) -> str:
        """The origins of all texts, joined by commas, for messages; `kubeconfig` without any."""
        return ", ".join(self._origins) or "kubeconfig"

    def _find_entry(
        self, entries: Mapping[str, _Entry], section: str, name: str, used_by: str = ""
    ) -> _Entry:
        """The entry of this name; else raises BadCredentials that lists the names there are."""
        found = entries.get(name)
        if found is None:
            known = ", ".join(sorted(entries)) or "none"
            by = f" of {used_by}" if used_by else ""
            raise BadCredentials(
                f"{self._origin_names}: no {section} {name!r}{by}; there is: {known}"
            )
        return found


def _has_valid_port(url: str) -> bool:
    """Whether a URL has a port from 1 to 65535, or none."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


class _ContextReader:
    """Converts sections to values, and records the files that it reads."""

    def __init__(self, trusted: bool) -> None:
        """No file is read yet; unless `trusted`, files and programs are refused."""
        self._trusted = trusted
        self.files: list[Path] = []

    def endpoint(self, entry: _Entry, label: str) -> ServerEndpoint:
        """The API server of a cluster entry, with its CA from inline data or a file.

        Raises `BadCredentials` for an invalid URL, port or proxy, a CA that cannot be read, and a
        proxy in an untrusted kubeconfig.
        """
        cluster: _ClusterFields = entry.value
        at = f"{entry.source.origin}: {label}"
        if not cluster.server.startswith(("https://", "http://")):
            raise BadCredentials(f"{at}: server is not an http(s) URL; set `server: https://…`")
        if not _has_valid_port(cluster.server):
            raise BadCredentials(f"{at}: server has no port from 1 to 65535; mend `server`")
        self._refuse_if_untrusted(at, "proxy-url", cluster.proxy_url)
        if cluster.proxy_url and not cluster.proxy_url.startswith(("http://", "https://")):
            raise BadCredentials(f"{at}: proxy-url must be http:// or https://; others do not work")
        return ServerEndpoint(
            url=cluster.server.rstrip("/"),
            ca=self._pem(entry, label, "certificate-authority", cluster.certificate_authority_data),
            server_name=cluster.tls_server_name,
            insecure=cluster.insecure_skip_tls_verify,
            proxy=cluster.proxy_url,
        )

    def identity(self, entry: _Entry, label: str) -> Identity:
        """The credentials of a user entry; `tokenFile` wins over `token`.

        Raises BadCredentials for an auth-provider, a malformed token, or a certificate without key.
        """
        user: _UserFields = entry.value
        at = f"{entry.source.origin}: {label}"
        self._refuse_if_untrusted(at, "auth-provider", user.auth_provider)
        if user.auth_provider:
            raise BadCredentials(f"{at}: auth-provider is not supported; use an exec plugin")
        token = user.token.strip()
        if user.token_file:
            token = token_text(
                self._read_referenced_file(entry, label, "tokenFile", user.token_file)
            )
        if not token.isascii() or not token.isprintable():
            raise BadCredentials(f"{at}: the token is not one line of ASCII; copy it again")
        certificate = self._pem(entry, label, "client-certificate", user.client_certificate_data)
        key = self._pem(entry, label, "client-key", user.client_key_data)
        if bool(certificate) != bool(key):
            raise BadCredentials(
                f"{at}: client-certificate and client-key go together; one is missing"
            )
        return Identity(
            token, certificate, key, user.username, user.password, _impersonation_headers(user)
        )

    def plugin(
        self, entry: _Entry, cluster: _Entry, endpoint: ServerEndpoint, label: str
    ) -> ExecPlugin | None:
        """The exec plugin of a user entry; None without one.

        A relative command with a slash is taken from the kubeconfig's folder. Raises
        `BadCredentials` in an untrusted kubeconfig.
        """
        user: _UserFields = entry.value
        if user.exec is None:
            return None
        self._refuse_if_untrusted(f"{entry.source.origin}: {label}", "exec", user.exec)
        plugin = user.exec
        command = plugin.command
        if "/" in command and entry.source.folder is not None:
            command = str(entry.source.folder / command)
        cluster_info = (
            _exec_cluster_info(cluster.value, endpoint) if plugin.provide_cluster_info else b""
        )
        return ExecPlugin(
            command=command,
            args=tuple(plugin.args or ()),
            env=tuple((variable.name, variable.value) for variable in plugin.env or ()),
            api_version=plugin.api_version,
            interactive=plugin.interactive_mode,
            install_hint=plugin.install_hint,
            cluster=cluster_info,
            origin=f"{entry.source.origin}: {label}",
        )

    def _pem(self, entry: _Entry, label: str, field: str, inline: str) -> bytes:
        """The content of `field-data`, else of the file that `field` names; empty without either.

        Raises `BadCredentials` for invalid base64, and for a file that cannot or may not be read.
        """
        if inline:
            try:
                return base64.b64decode(inline, validate=False)
            except binascii.Error:
                at = f"{entry.source.origin}: {label}"
                raise BadCredentials(f"{at}: {field}-data is not base64; encode it") from None
        path = getattr(entry.value, field.replace("-", "_"))
        return self._read_referenced_file(entry, label, field, path) if path else b""

    def _read_referenced_file(self, entry: _Entry, label: str, field: str, path: str) -> bytes:
        """Read a file that an entry names, and add it to `files`, which are checked for changes.

        Raises `BadCredentials` if it cannot be read, in an untrusted kubeconfig, and in one that
        has no folder.
        """
        at = f"{entry.source.origin}: {label}"
        self._refuse_if_untrusted(at, field, path)
        if entry.source.folder is None:
            raise BadCredentials(f"{at}: {field} names a file, which this kubeconfig may not do")
        file = entry.source.folder / path
        self.files.append(file)
        return read_file(file, f"{at}: {field}")

    def _refuse_if_untrusted(self, at: str, field: str, value: object) -> None:
        """Raise `BadCredentials` if a field is set that an untrusted kubeconfig may not set."""
        if value and not self._trusted:
            raise BadCredentials(
                f"{at}: {field} is refused in a kubeconfig from a Secret; use inline data"
            )


def read_file(file: Path, used_by: str) -> bytes:
    """The content of a credentials file; raises `BadCredentials`, with `used_by`, if unreadable."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadCredentials(f"{used_by}: cannot read {file}: {error.strerror}") from None


def token_text(content: bytes) -> str:
    """The token in a file's content, without white space around it; non-ASCII is replaced."""
    return content.decode("ascii", "replace").strip()


@lru_cache(maxsize=8)  # every context of a file is resolved by itself
def _parse_document(source: KubeconfigSource) -> _KubeconfigFields:
    """Parse a kubeconfig without its nulls; raises BadCredentials if it is malformed."""
    loaded = _parse_safely(
        lambda: load_yaml(source.text),
        f"{source.origin}: not YAML; see `kubectl config view`",
    )
    try:
        return msgspec.convert(_drop_nulls(loaded or {}), _KubeconfigFields)
    except msgspec.ValidationError as error:
        raise BadCredentials(f"{source.origin}: {error}; see `kubectl config view`") from None


def _drop_nulls(value: Any) -> Any:
    """The value without null fields of its maps at any depth, which count as absent."""
    if isinstance(value, dict):
        return {key: _drop_nulls(item) for key, item in value.items() if item is not None}
    return [_drop_nulls(item) for item in value] if isinstance(value, list) else value


def _parse_safely(parse: Callable[[], T], otherwise: str) -> T:
    """`parse()`; raises `BadCredentials(otherwise)` for YAML errors, which may quote a secret."""
    try:
        return parse()
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadCredentials(otherwise) from None


def _impersonation_headers(user: _UserFields) -> tuple[tuple[str, str], ...]:
    """The Impersonate-User, -Uid and -Group headers of a user entry; empty if it has none."""
    headers = [("Impersonate-User", user.as_)] if user.as_ else []
    headers += [("Impersonate-Uid", user.as_uid)] if user.as_uid else []
    headers += [("Impersonate-Group", group) for group in user.as_groups or ()]
    return tuple(headers)


def _exec_cluster_info(cluster: _ClusterFields, endpoint: ServerEndpoint) -> bytes:
    """The cluster as a plugin gets it, as JSON; empty fields are left out.

    `config` is the extension `client.authentication.k8s.io/exec`, if there is one.
    """
    config = [
        item.get("extension")
        for item in cluster.extensions or ()
        if item.get("name") == "client.authentication.k8s.io/exec"
    ]
    cluster_info = {
        "server": cluster.server,
        "tls-server-name": endpoint.server_name,
        "insecure-skip-tls-verify": endpoint.insecure,
        "certificate-authority-data": base64.b64encode(endpoint.ca).decode(),
        "proxy-url": endpoint.proxy,
        "config": config[0] if config else None,
    }
    return msgspec.json.encode({key: value for key, value in cluster_info.items() if value})
