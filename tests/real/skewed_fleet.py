"""A local federation whose agents are exchanged for those of version 0.1.0."""

import subprocess
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.programs import (
    COMMAND_TIMEOUT,
    HANSE,
    CommandResult,
    RunningFederation,
    environment,
)

UNTIL = "--timeout=60s"


class Fleet:
    """Clusters of a local Federation, whose agents are exchanged for those of 0.1.0."""

    def __init__(self, running: RunningFederation, earlier: Path, logs: Path) -> None:
        self._running = running
        self._earlier = earlier
        self._logs = logs

    def try_on(self, cluster: str, *arguments: str, stdin: str = "") -> CommandResult:
        """Run kubectl as an administrator."""
        return self._running.kubectl("--context", cluster, *arguments, stdin=stdin)

    def on(self, cluster: str, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as an administrator; it must succeed."""
        found = self.try_on(cluster, *arguments, stdin=stdin)
        assert found.status == 0, f"{cluster}: {arguments}: {found.err}"
        return found.out

    def apply(self, cluster: str, document: str) -> None:
        self.on(cluster, "apply", "-f", "-", stdin=document)

    def wait(self, cluster: str, what: str, sign: str, namespace: str = "market") -> None:
        """Wait until an object is there, and a sign of it is seen."""
        self.on(cluster, "-n", namespace, "wait", what, "--for=create", UNTIL)
        self.on(cluster, "-n", namespace, "wait", what, f"--for={sign}", UNTIL)

    def hanse(self, *arguments: str) -> CommandResult:
        return self._running.run_hanse(*arguments)

    @contextmanager
    def agent_of_0_1_0(self, cluster: str, *options: str) -> Iterator[None]:
        """Run an agent of a cluster as a process, in place of that of `hanse up`.

        At the broker it has the account that `hanse join` gives it, and no other rights.
        """
        joined = self.hanse(
            *("join", "--broker", "broker", "--cluster-id", cluster, "--context", cluster)
        )
        assert joined.status == 0, joined.err
        get_secret = ("-n", "hanse-system", "get", "secret", "hanse-broker", "-o")
        account = self._logs / f"{cluster}-broker.kubeconfig"
        account.write_bytes(b64decode(self.on(cluster, *get_secret, "jsonpath={.data.kubeconfig}")))
        stopped = self.hanse("local", "stop", "agent", cluster)
        assert stopped.status == 0, stopped.err
        variables = {
            "KUBECONFIG": str(self._running.kubeconfig),
            "PYTHONPATH": str(self._earlier),
        }
        log = self._logs / f"{cluster}-0.1.0.log"
        with log.open("a") as written:
            process = subprocess.Popen(
                [
                    *(*HANSE, "agent", "--cluster-id", cluster, "--context", cluster),
                    *("--broker-kubeconfig", str(account), "--listen", "127.0.0.1:0", *options),
                ],
                env=environment(self._running.folder, variables),
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
            )
        try:
            yield
        finally:
            ended = process.poll()
            process.terminate()
            process.wait(COMMAND_TIMEOUT)
            assert ended is None, f"it ended by itself:\n{log.read_text()[-3000:]}"
            assert '"hanse.engine.' in log.read_text(), "it is of this version"
        started = self.hanse("local", "start", "agent", cluster)
        assert started.status == 0, started.err


def soon(read: Callable[[], object], wanted: object) -> None:
    """Read until it is as wanted."""
    until = time.monotonic() + 3 * COMMAND_TIMEOUT
    while (found := read()) != wanted:
        assert time.monotonic() < until, f"{found}, not {wanted}"
        time.sleep(0.3)
