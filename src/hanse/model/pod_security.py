"""The Pod Security Standards: which fields of a pod template break `baseline` or `restricted`.

The controls are those that the Kubernetes documentation publishes for 1.34 and later. A template is
judged as JSON that anyone may have written: a field of another type than the API's is a violation.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from hanse.model.kinds.acceptance import PodSecurityLevel
from hanse.model.objects import Wire

BASELINE_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
SELINUX_TYPES = frozenset(
    {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
)
RESTRICTED_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"

_PROFILES = frozenset({"RuntimeDefault", "Localhost"})
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


class Violation(Struct, frozen=True, order=True):
    """A field of a pod template, and why it is not allowed."""

    field: str
    reason: str


class _Field(Struct, frozen=True):
    """A value with its path; a child of a missing value is missing."""

    path: str
    value: Any

    def __getitem__(self, name: str) -> "_Field":
        """The field of that name with its path; value None if it is absent or this is no object."""
        value = self.value.get(name) if isinstance(self.value, dict) else None
        return _Field(f"{self.path}.{name}", value)

    @property
    def items(self) -> list["_Field"]:
        """The elements of a list, each with its path; none for another type."""
        values = self.value if isinstance(self.value, list) else []
        return [_Field(f"{self.path}[{n}]", value) for n, value in enumerate(values)]


class _Pod(Struct, frozen=True):
    """A pod template: its annotations, its spec, and its containers of every sort."""

    metadata: _Field
    spec: _Field

    @property
    def containers(self) -> list[_Field]:
        """Init, regular and ephemeral containers."""
        return [c for name in _CONTAINER_LISTS for c in self.spec[name].items]

    @property
    def security_contexts(self) -> list[_Field]:
        """The securityContext of the pod, then of each container; a missing one has value None."""
        return [self.spec["securityContext"], *(c["securityContext"] for c in self.containers)]

    @property
    def is_windows(self) -> bool:
        """Whether `spec.os.name` is `windows`."""
        return bool(self.spec["os"]["name"].value == "windows")


def violations(template: Wire, level: PodSecurityLevel, path: str = "") -> tuple[Violation, ...]:
    """What in a pod template breaks a level, wrong types included; nothing breaks `privileged`."""
    if level == "privileged":
        return ()
    root = _Field(path, template)
    pod = _Pod(_child(root, "metadata"), _child(root, "spec"))
    checks = (_wrong_types, *_BASELINE, *(_RESTRICTED if level == "restricted" else ()))
    return tuple(violation for check in checks for violation in check(pod))


def _child(root: _Field, name: str) -> _Field:
    """A field of the template; its path has no leading dot where the template has none."""
    field = root[name]
    return _Field(field.path.lstrip("."), field.value)


_OBJECTS = ("securityContext", "lifecycle", *_PROBES)


def _wrong_types(pod: _Pod) -> Iterator[Violation]:
    """A violation for each field that the checks below look into and that has a wrong JSON type.

    Those have to be objects or lists, or may be missing, and the items of container lists and
    volumes have to be objects; the checks would not find what is in a wrong one.
    """
    yield from _must_be(pod.spec, dict)
    yield from _must_be(pod.metadata, dict)
    yield from _must_be(pod.metadata["annotations"], dict)
    yield from _must_be(pod.spec["securityContext"], dict)
    for name in (*_CONTAINER_LISTS, "volumes"):
        yield from _must_be(pod.spec[name], list)
        for item in pod.spec[name].items:
            yield from _must_be(item, dict, required=True)
    yield from _must_be(pod.spec["securityContext"]["sysctls"], list)
    for container in pod.containers:
        yield from _must_be(container["ports"], list)
        for name in _OBJECTS:
            yield from _must_be(container[name], dict)
    for context in pod.security_contexts:
        for name in (
            "windowsOptions",
            "seLinuxOptions",
            "seccompProfile",
            "appArmorProfile",
            "capabilities",
        ):
            yield from _must_be(context[name], dict)
        for name in ("add", "drop"):
            yield from _must_be(context["capabilities"][name], list)


def _must_be(field: _Field, type_: type, *, required: bool = False) -> Iterator[Violation]:
    """A violation if a field is not of that JSON type; missing is allowed unless `required`."""
    if not isinstance(field.value, type_) and (required or field.value is not None):
        yield Violation(field.path, f"is not {'an object' if type_ is dict else 'a list'}")


def _is_one_of(field: _Field, allowed: frozenset[str]) -> bool:
    """Whether the value of a field is a text, and one of those allowed."""
    return isinstance(field.value, str) and field.value in allowed


def _must_be_false(field: _Field, what: str) -> Iterator[Violation]:
    """A violation, with `what` as its reason, if a field is set to anything but false."""
    if field.value not in (None, False):
        yield Violation(field.path, what)


def _host_process(pod: _Pod) -> Iterator[Violation]:
    """A violation for each security context with windowsOptions.hostProcess set, unless false."""
    for context in pod.security_contexts:
        field = context["windowsOptions"]["hostProcess"]
        yield from _must_be_false(field, "HostProcess containers are not allowed")


def _host_namespaces(pod: _Pod) -> Iterator[Violation]:
    """A violation for each of hostNetwork, hostPID and hostIPC that is set, unless false."""
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        yield from _must_be_false(pod.spec[name], "namespaces of the host are not allowed")


def _privileged(pod: _Pod) -> Iterator[Violation]:
    """A violation for each container with `privileged` set, unless false."""
    for container in pod.containers:
        field = container["securityContext"]["privileged"]
        yield from _must_be_false(field, "privileged containers are not allowed")


def _capabilities(pod: _Pod) -> Iterator[Violation]:
    """A violation for each added capability that is not in BASELINE_CAPABILITIES."""
    for added in _added_capabilities(pod):
        if not _is_one_of(added, BASELINE_CAPABILITIES):
            yield Violation(added.path, f"capability {added.value!r} is not allowed")


def _added_capabilities(pod: _Pod) -> Iterator[_Field]:
    """Each entry of securityContext.capabilities.add of every container."""
    for container in pod.containers:
        yield from container["securityContext"]["capabilities"]["add"].items


def _host_paths(pod: _Pod) -> Iterator[Violation]:
    """A violation for each volume with a `hostPath`."""
    for volume in pod.spec["volumes"].items:
        if volume["hostPath"].value is not None:
            yield Violation(volume["hostPath"].path, "hostPath volumes are not allowed")


def _host_ports(pod: _Pod) -> Iterator[Violation]:
    """A violation for each container port with a hostPort other than 0."""
    for container in pod.containers:
        for port in container["ports"].items:
            if port["hostPort"].value not in (None, 0):
                yield Violation(port["hostPort"].path, "ports of the host are not allowed")


def _probe_hosts(pod: _Pod) -> Iterator[Violation]:
    """A violation for each `host` in httpGet and tcpSocket of probes and lifecycle hooks.

    An empty one is allowed.
    """
    for container in pod.containers:
        handlers = [container[name] for name in _PROBES]
        handlers += [container["lifecycle"][name] for name in ("postStart", "preStop")]
        for handler in handlers:
            for action in ("httpGet", "tcpSocket"):
                host = handler[action]["host"]
                if host.value not in (None, ""):
                    yield Violation(host.path, "a host in probes and hooks is not allowed")


def _apparmor(pod: _Pod) -> Iterator[Violation]:
    """A violation for each AppArmor profile but the runtime's default and localhost ones.

    They are read from security contexts and from the older annotations, where empty is allowed,
    too.
    """
    for context in pod.security_contexts:
        field = context["appArmorProfile"]["type"]
        if field.value is not None and not _is_one_of(field, _PROFILES):
            yield Violation(field.path, f"AppArmor profile {field.value!r} is not allowed")
    annotations = pod.metadata["annotations"].value
    for name, value in (annotations if isinstance(annotations, dict) else {}).items():
        allowed = value in ("", "runtime/default") or str(value).startswith("localhost/")
        if str(name).startswith(APPARMOR_ANNOTATION) and not allowed:
            path = f"{pod.metadata.path}.annotations[{name}]"
            yield Violation(path, f"AppArmor profile {value!r} is not allowed")


def _selinux(pod: _Pod) -> Iterator[Violation]:
    """A violation for each SELinux type not in SELINUX_TYPES, and for any user or role.

    What is missing or empty is allowed.
    """
    for context in pod.security_contexts:
        options = context["seLinuxOptions"]
        type_ = options["type"]
        if type_.value is not None and not _is_one_of(type_, SELINUX_TYPES):
            yield Violation(type_.path, f"SELinux type {type_.value!r} is not allowed")
        for name in ("user", "role"):
            if options[name].value not in (None, ""):
                yield Violation(options[name].path, f"an SELinux {name} is not allowed")


def _proc_mount(pod: _Pod) -> Iterator[Violation]:
    """A violation for each container whose procMount is set, and not to Default."""
    for container in pod.containers:
        field = container["securityContext"]["procMount"]
        if field.value not in (None, "Default"):
            yield Violation(field.path, f"/proc mount type {field.value!r} is not allowed")


def _seccomp(pod: _Pod) -> Iterator[Violation]:
    """A violation for each seccomp type that is set, and neither RuntimeDefault nor Localhost.

    The security contexts of the pod and of all containers count.
    """
    for context in pod.security_contexts:
        field = context["seccompProfile"]["type"]
        if field.value is not None and not _is_one_of(field, _PROFILES):
            yield Violation(field.path, f"seccomp profile {field.value!r} is not allowed")


def _sysctls(pod: _Pod) -> Iterator[Violation]:
    """A violation for each sysctl of the pod that is not in SAFE_SYSCTLS."""
    for sysctl in pod.spec["securityContext"]["sysctls"].items:
        name = sysctl["name"]
        if not _is_one_of(name, SAFE_SYSCTLS):
            yield Violation(name.path, f"sysctl {name.value!r} is not allowed")


def _volume_types(pod: _Pod) -> Iterator[Violation]:
    """A violation for each field of a volume, but `name`, that is not in RESTRICTED_VOLUMES."""
    for volume in pod.spec["volumes"].items:
        for name in volume.value if isinstance(volume.value, dict) else ():
            if name != "name" and name not in RESTRICTED_VOLUMES:
                yield Violation(volume[name].path, f"volumes of type {name} are not allowed")


def _privilege_escalation(pod: _Pod) -> Iterator[Violation]:
    """A violation for each container whose allowPrivilegeEscalation is missing or not false.

    None on Windows.
    """
    if pod.is_windows:
        return
    for container in pod.containers:
        field = container["securityContext"]["allowPrivilegeEscalation"]
        if field.value is not False:
            yield Violation(field.path, "must be false")


def _run_as_non_root(pod: _Pod) -> Iterator[Violation]:
    """A violation for each container whose runAsNonRoot, or else the pod's, is not true.

    Another one for a pod's that is set and not true.
    """
    of_pod = pod.spec["securityContext"]["runAsNonRoot"]
    if of_pod.value not in (None, True):
        yield Violation(of_pod.path, "must be true")
    for container in pod.containers:
        field = container["securityContext"]["runAsNonRoot"]
        if field.value is not True and (field.value is not None or of_pod.value is not True):
            yield Violation(field.path, "must be true, here or of the pod")


def _run_as_user(pod: _Pod) -> Iterator[Violation]:
    """A violation for each runAsUser, of pod or container, that is set to 0 or to no integer."""
    for context in pod.security_contexts:
        field = context["runAsUser"]
        is_user = isinstance(field.value, int) and not isinstance(field.value, bool)
        if field.value is not None and not (is_user and field.value != 0):
            yield Violation(field.path, "must not be 0")


def _explicit_seccomp(pod: _Pod) -> Iterator[Violation]:
    """A violation for each container without a seccomp type, unless the pod has an allowed one.

    None on Windows.
    """
    of_pod = pod.spec["securityContext"]["seccompProfile"]["type"]
    if pod.is_windows or _is_one_of(of_pod, _PROFILES):
        return  # a container's own profile is checked by baseline
    for container in pod.containers:
        field = container["securityContext"]["seccompProfile"]["type"]
        if field.value is None:
            yield Violation(field.path, "must be RuntimeDefault or Localhost, here or of the pod")


def _restricted_capabilities(pod: _Pod) -> Iterator[Violation]:
    """A violation for each added capability but NET_BIND_SERVICE, and where ALL is not dropped.

    The latter for each container. None on Windows.
    """
    if pod.is_windows:
        return
    for added in _added_capabilities(pod):
        if added.value != "NET_BIND_SERVICE":
            yield Violation(added.path, f"capability {added.value!r} is not allowed")
    for container in pod.containers:
        drop = container["securityContext"]["capabilities"]["drop"]
        if "ALL" not in [each.value for each in drop.items]:
            yield Violation(drop.path, "must contain ALL")


_Check = Callable[[_Pod], Iterator[Violation]]
_BASELINE: tuple[_Check, ...] = (
    _host_process,
    _host_namespaces,
    _privileged,
    _capabilities,
    _host_paths,
    _host_ports,
    _probe_hosts,
    _apparmor,
    _selinux,
    _proc_mount,
    _seccomp,
    _sysctls,
)
_RESTRICTED: tuple[_Check, ...] = (
    _volume_types,
    _privilege_escalation,
    _run_as_non_root,
    _run_as_user,
    _explicit_seccomp,
    _restricted_capabilities,
)
