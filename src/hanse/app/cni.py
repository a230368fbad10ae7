"""The CNI plugin on a guarded node: installs it, answers its calls, keeps the rules of ports."""

import asyncio
import logging
import os
import re
import shutil
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from hanse.app.cni_attachments import Attachments, changed_at, is_virtual, remove_stale_call_folders
from hanse.app.cni_folders import (
    CniFolders,
    Commands,
    first_config,
    installed_folders,
    is_our_script,
    names_our_plugin,
    remember_folders,
    write_file,
)
from hanse.features.networks.cni import (
    CONFIG_FILE,
    PLUGIN,
    POD_COMMANDS,
    TRY_AGAIN,
    CniError,
    KnownPod,
    PodRef,
    merge_cni_args,
    parse_config,
    parse_pod,
    pod_cni_args,
    render_error,
    render_versions,
    unread_pod_args,
    wrap_config,
)
from hanse.features.networks.cni_script import plugin_script
from hanse.features.networks.guard.ports import (
    PORTS_TABLE,
    LinkKinds,
    PodPort,
    pod_port,
    ports_table,
    replace_ports,
)
from hanse.kube.errors import KubeError
from hanse.model.json_input import decode_json
from hanse.providers.nftables import NftablesError

log = logging.getLogger(__name__)

ANSWER_SECONDS = 20
READ_SECONDS = 10.0
REFRESH_SECONDS = 5.0
"""How often it is checked that the rules, the plugin and the configuration are in place."""
_CALL = re.compile(r"(call-[A-Za-z0-9]+) (begin|end)")
_ENVIRONMENT = ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS")

UNCHECKED = (
    "pods on a bridge are not checked: they started before the guard, or their plugin's result "
    "does not list their interface on the node; restart them, or use a plugin that lists it"
)

ReadPod = Callable[[PodRef], Awaitable[KnownPod | None]]
"""Reads a pod; None if it is not there, and raises `KubeError` if the server does not say."""


class NodePlugin:
    """The plugin of one node; pods start only while it is answered, and end also without."""

    def __init__(self, folders: CniFolders, rules: Commands, read_pod: ReadPod) -> None:
        """Nothing is installed and no port is known yet; `rules` runs the commands of nftables."""
        self._folders = folders
        self._rules = rules
        self._read_pod = read_pod
        self._ports: dict[str, PodPort] = {}
        """The port of each attachment, by the name of its folder."""
        self.attachments = Attachments(folders)
        self.on_attached: Callable[[], None] = lambda: None
        """Told when pods have other interfaces."""
        self._outdated = True
        """Whether the rules may be others than those of the ports."""
        self.problem = "the CNI plugin is not installed yet"
        """Why pods of this node are not checked by their ports; empty if they are."""
        self.unchecked: tuple[str, ...] = ()
        """Ports of bridges that look like pods' and have no rules: pods of before, or of a plugin
        whose result names no interface of the node."""

    async def run(self) -> None:
        """Install the plugin and answer its calls until cancelled; it stays installed.

        Deletes stale folders of calls, loads the attachments first, and refreshes plugin and
        attachments every REFRESH_SECONDS.
        """
        remove_stale_call_folders(self._folders.state)
        questions = _open_questions(self._folders.state)
        loop = asyncio.get_running_loop()
        self._ports = self._known_ports()
        self.attachments.load()
        self.on_attached()
        self.refresh()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._refresh_regularly(), name="refresh of the CNI plugin")
                asked = asyncio.Event()
                loop.add_reader(questions, asked.set)
                while True:
                    await asked.wait()
                    asked.clear()
                    for call, step in _read_questions(questions):
                        group.create_task(self._answer(call, step), name=f"{step} of {call}")
        finally:
            loop.remove_reader(questions)
            os.close(questions)

    async def _refresh_regularly(self) -> None:
        """Refresh plugin and attachments every REFRESH_SECONDS; never returns.

        Calls `on_attached` if interfaces have changed.
        """
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            self.refresh()
            if self.attachments.refresh():
                self.on_attached()

    def refresh(self) -> None:
        """Write what is missing: the rules of ports, then the plugin and its configuration.

        If the rules cannot be written, the plugin is not installed: pods would not start. Sets
        `problem` to a failure, which is not raised, or to empty, and updates `unchecked`.
        """
        try:
            if self._outdated or not self._is_in_place():
                self._write_ports(self._ports)
            self._install()
            self.problem = ""
        except (CniError, NftablesError, OSError) as error:
            self.problem = f"the CNI plugin is not in use: {error}"
        self._look_for_unchecked()

    def _look_for_unchecked(self) -> None:
        """Set `unchecked` to the ports of bridges that may be pods' and have no rules, sorted.

        Logs them if there are any, and others than before.
        """
        checked = {port.interface for port in self._ports.values()}
        links = (self._folders.system / "sys/class/net").glob("*/brport")
        names = (path.parent.name for path in links if is_virtual(path.parent))
        found = tuple(sorted({*names} - checked))
        if found and found != self.unchecked:
            log.warning(UNCHECKED, extra={"ports": ", ".join(found)})
        self.unchecked = found

    def _install(self) -> None:
        """Write the script, and a configuration that wraps the node's first one by name.

        Our configuration is removed from an earlier folder, and where there is none to wrap. Raises
        `CniError` then, for a script that is not ours, and for a configuration that is invalid,
        names our plugin itself or comes before ours; and `OSError`.
        """
        folders = self._folders
        before = installed_folders(folders.state)
        if before is not None and before.config != folders.config:
            (before.config / CONFIG_FILE).unlink(missing_ok=True)
        path, base = folders.plugins / PLUGIN, first_config(folders.config)
        if base is not None and names_our_plugin(base):
            message = f"{base} names the plugin {PLUGIN} itself: write its delegate in its place"
            raise CniError(TRY_AGAIN, f"{message}, then move a {path} of your own away")
        if not is_our_script(path):
            message = f"{path} was not written by a guard; move it away, it is not needed any more"
            raise CniError(TRY_AGAIN, message)
        remember_folders(folders)
        script = plugin_script(str(folders.state), ANSWER_SECONDS)
        write_file(path, script.encode(), mode=0o755)
        if base is None:
            (folders.config / CONFIG_FILE).unlink(missing_ok=True)
            raise CniError(TRY_AGAIN, f"{folders.config} has no network configuration")
        if base.name < CONFIG_FILE:
            raise CniError(TRY_AGAIN, f"runtimes take {base.name} first; give it another name")
        try:
            wrapped = wrap_config(base.read_bytes())
            self._write_fallback(wrapped)
        except CniError as error:
            raise CniError(error.code, f"{base}: {error}") from None
        text = msgspec.json.format(msgspec.json.encode(wrapped)) + b"\n"
        write_file(folders.config / CONFIG_FILE, text, mode=0o600)

    def _write_fallback(self, wrapped: dict[str, Any]) -> None:
        """Write the node's own plugin and its configuration to `fallback` in the state folder.

        By these the script ends containers that it has not attached, while no guard runs. Raises
        `CniError` if that configuration is invalid, and `OSError`.
        """
        common = {name: wrapped[name] for name in ("cniVersion", "name") if name in wrapped}
        config = parse_config(msgspec.json.encode({**common, **wrapped["plugins"][0]}))
        folder = self._folders.state / "fallback"
        folder.mkdir(mode=0o700, exist_ok=True)
        write_file(folder / "plugin", config.plugin.encode(), mode=0o600)
        write_file(folder / "delegate", msgspec.json.encode(config.delegate), mode=0o600)

    async def _answer(self, name: str, step: str) -> None:
        """Decide one question of a call, and write the answer into the call's pipe.

        A failure to read or write is logged; the caller then gets no answer.
        """
        call = self._folders.state / name
        try:
            values = (call / "environment").read_text().splitlines()
            environment = dict(zip(_ENVIRONMENT, values, strict=True))
            answer = await self._decide(call, environment, step)
            pipe = os.open(call / "answer", os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(pipe, f"{answer}\n".encode())
            finally:
                os.close(pipe)
        except (OSError, ValueError) as error:
            log.warning("a call of the CNI plugin was lost", extra={"why": str(error)})

    async def _decide(self, call: Path, environment: dict[str, str], step: str) -> str:
        """What the caller shall do next: `run` the delegate, or end as `done` or `failed`.

        At step `begin` the delegate runs; at `end` the pod is attached, which is `done`. A VERSION
        is done at once. What the caller needs is written to the folder of its call; a failure is
        logged. Raises `OSError` if files cannot be read.
        """
        version = "0.4.0"
        try:
            text = (call / "config").read_bytes()
            if environment["CNI_COMMAND"] == "VERSION":
                said = decode_json(text, type=dict[str, Any]).get("cniVersion", version)
                (call / "body").write_bytes(render_versions(str(said)))
                return "done"
            version = parse_config(text).version
            if step == "begin":
                await self._begin(call, environment, text)
                return "run"
            self._attach(call, environment)
        except (CniError, NftablesError, msgspec.DecodeError) as error:
            failure = error if isinstance(error, CniError) else CniError(TRY_AGAIN, str(error))
            log.warning("a pod is not attached", extra={"why": str(error)})
            (call / "body").write_bytes(render_error(version, failure))
            return "failed"
        return "done"

    async def _begin(self, call: Path, environment: dict[str, str], text: bytes) -> None:
        """Write plugin, arguments and configuration of the delegate to the folder of the call.

        A pod's arguments include those of its annotation. The command DEL also removes the rules of
        the port now. Raises `CniError` for a bad configuration, and for a pod that is not ready to
        be attached.
        """
        config = parse_config(text)
        command, args = environment["CNI_COMMAND"], environment["CNI_ARGS"]
        if command in POD_COMMANDS and (ref := parse_pod(args)) is not None:
            args = merge_cni_args(args, await self._cni_args(ref, command))
        (call / "plugin").write_text(config.plugin)
        (call / "args").write_text(args)
        (call / "delegate").write_bytes(msgspec.json.encode(config.delegate))
        if command == "DEL":
            self._forget_port(_attachment_name(environment))

    async def _cni_args(self, ref: PodRef, command: str) -> str:
        """The CNI arguments of a pod's annotation, which is read within READ_SECONDS; or empty.

        For DEL empty, too, if the pod cannot be read, is gone or is in no network. Other commands
        raise `CniError` then, if it is in no network only with such an annotation; ADD also if its
        port is not prepared.
        """
        try:
            async with asyncio.timeout(READ_SECONDS):
                known = await self._read_pod(ref)
        except (KubeError, TimeoutError) as error:
            return unread_pod_args(ref, command, error)
        return pod_cni_args(ref, known, command)

    def _attach(self, call: Path, environment: dict[str, str]) -> None:
        """Copy the files of a call to its attachment's folder, and write the rules of its port.

        Adds it to `attachments`, and calls `on_attached` if that changed. Raises `CniError`,
        `NftablesError`, or `OSError` or `DecodeError` for files of the call.
        """
        result = decode_json((call / "result").read_bytes(), type=dict[str, Any])
        name = _attachment_name(environment)
        kept = self._folders.state / name
        kept.mkdir(mode=0o700, exist_ok=True)
        os.utime(kept)
        for file in ("plugin", "args", "delegate", "result"):
            shutil.copyfile(call / file, kept / file)
        self._change_port(name, self._port_of(kept, result))
        if self.attachments.add(name):
            self.on_attached()

    def _port_of(self, attachment: Path, result: dict[str, Any]) -> PodPort | None:
        """The port on the node that a plugin's result names; None if the pod is on no bridge.

        Raises `CniError` for a pod on a bridge whose result does not say its port.
        """
        links = self._folders.system / "sys/class/net"
        kinds = LinkKinds(
            is_bridge=lambda name: (links / name / "bridge").is_dir(),
            is_port=lambda name: (links / name / "brport").exists(),
        )
        try:
            return pod_port((attachment / "plugin").read_text(), result, kinds)
        except ValueError as error:
            raise CniError(TRY_AGAIN, f"the result of the network plugin: {error}") from None

    def _change_port(self, attachment: str, port: PodPort | None) -> None:
        """Replace the nftables rules of an attachment's port, or remove them if `port` is None.

        Other attachments' ports of the same interface are forgotten. Where the rules are not as
        expected, as somebody flushed them, all are written anew; if that fails, `NftablesError` is
        raised and the known ports stay.
        """
        gone = {n for n, p in self._ports.items() if port and p.interface == port.interface}
        gone |= {attachment} & self._ports.keys()
        old = {self._ports[name].interface: self._ports[name] for name in gone}
        ports = {name: one for name, one in self._ports.items() if name not in gone}
        if port is not None:
            ports[attachment] = port
        try:
            commands = replace_ports(old.values(), [port] if port else [])
            if commands and not self._outdated:
                self._rules.run(commands)
        except NftablesError:
            self._outdated = True
        if self._outdated:
            self._write_ports(ports)
        self._ports = ports

    def _write_ports(self, ports: dict[str, PodPort]) -> None:
        """Write the rules of these ports alone, all anew; `_outdated` is set until that succeeds.

        Raises `NftablesError`.
        """
        self._outdated = True
        self._rules.run(ports_table(ports.values()))
        self._outdated = False

    def _forget_port(self, attachment: str) -> None:
        """Forget an attachment, also of `attachments`, and remove the rules of its port.

        Calls `on_attached` if it was known there. A failure of nftables is logged; the port is
        forgotten nevertheless.
        """
        if self.attachments.drop(attachment):
            self.on_attached()
        try:
            self._change_port(attachment, None)
        except NftablesError as error:
            self._ports.pop(attachment, None)
            log.warning("the rules of a port stay for now", extra={"why": str(error)})

    def _known_ports(self) -> dict[str, PodPort]:
        """The ports of attachments in the state folder whose interfaces exist, by attachment.

        Of several attachments of one interface the latest; unreadable ones are logged and left out.
        """
        links, found = self._folders.system / "sys/class/net", {}
        paths = self._folders.state.glob("attached-*")
        for path in sorted(paths, key=lambda path: (changed_at(path), path.name)):
            try:
                result = decode_json((path / "result").read_bytes(), type=dict[str, Any])
                port = self._port_of(path, result)
            except (OSError, CniError, msgspec.DecodeError) as error:
                log.warning("an attachment has no port", extra={"why": str(error)})
                continue
            if port is not None and (links / port.interface).exists():
                found[port.interface] = (path.name, port)
        return dict(found.values())

    def _is_in_place(self) -> bool:
        """Whether nftables has our table of ports with its rules; False also if it cannot say."""
        try:
            return "vmap @ports" in self._rules.run(f"list chain {PORTS_TABLE} prerouting")
        except NftablesError:
            return False


def _open_questions(state: Path) -> int:
    """Open the named pipe of questions in the state folder; returns a non-blocking descriptor.

    Folder and pipe are made if they are missing; a file in the pipe's place is replaced.
    """
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o700)
    pipe = state / "questions"
    if not pipe.exists() or not stat.S_ISFIFO(pipe.lstat().st_mode):
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe, 0o600)
    return os.open(pipe, os.O_RDWR | os.O_NONBLOCK)


def _read_questions(pipe: int) -> list[tuple[str, str]]:
    """The calls that wait in the pipe, each with `begin` or `end`; empty if none does.

    Does not block; lines of another form are ignored.
    """
    try:
        lines = os.read(pipe, 65536).decode("ascii", "replace").splitlines()
    except BlockingIOError:
        return []
    found = [_CALL.fullmatch(line) for line in lines]
    return [(one[1], one[2]) for one in found if one is not None]


def _attachment_name(environment: dict[str, str]) -> str:
    """The name of the state folder of one interface of a container: `attached-CONTAINER-INTERFACE`.

    Raises `CniError` if it has a slash.
    """
    name = f"attached-{environment['CNI_CONTAINERID']}-{environment['CNI_IFNAME']}"
    if "/" in name:
        raise CniError(TRY_AGAIN, "CNI_CONTAINERID and CNI_IFNAME may have no slash")
    return name
