"""`python -m tinykube`: one cluster on this machine until interrupted."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from tinykube.cluster import Cluster
from tinykube.controllers.controller_manager import Simulation


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with status 2 after the message on stderr, prefixed `tinykube: `, without usage."""
        sys.exit(_print_error(message, 2))


def main(arguments: list[str] | None = None) -> int:
    """Run a cluster until SIGINT or SIGTERM; returns the exit status.

    It is 0, 1 after an OSError (the port, the kubeconfig), and 2 for a number out of its range,
    each error with a message on stderr. Other bad arguments end the process with status 2
    (`SystemExit`). Without `--kubeconfig` that file is in a temporary folder, which is removed at
    the end.
    """
    parser = _Parser(prog="python -m tinykube", description="A Kubernetes cluster in one process.")
    parser.add_argument("--port", type=int, default=0, help="serve on this port, not on a free one")
    parser.add_argument("--nodes", type=int, default=3, help="how many nodes to simulate")
    parser.add_argument("--kubeconfig", type=Path, help="write the kubeconfig to this file")
    given = parser.parse_args(arguments)
    if not 0 <= given.port < 65536:
        return _print_error(f"there is no port {given.port}", 2)
    if not 0 <= given.nodes <= 100:
        return _print_error("--nodes is a number from 0 to 100", 2)
    with TemporaryDirectory(prefix="tinykube-") as folder:
        kubeconfig = given.kubeconfig or Path(folder, "kubeconfig")
        try:
            asyncio.run(_run(kubeconfig.absolute(), given.port, given.nodes))
        except OSError as error:
            where = error.filename or f"port {given.port}"
            return _print_error(f"{where}: {error.strerror}", 1)
    return 0


async def _run(kubeconfig: Path, port: int, nodes: int) -> None:
    """Serve a cluster of so many nodes, print its URL, and wait for SIGINT or SIGTERM.

    Writes the kubeconfig; the cluster stops before this returns.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    cluster = Cluster(simulation=Simulation(nodes=nodes))
    async with cluster, cluster.serve(kubeconfig, port=port) as url:
        sys.stdout.write(f"{url} is ready; stop it with Ctrl-C\nexport KUBECONFIG={kubeconfig}\n")
        sys.stdout.flush()
        await stopped.wait()


def _print_error(message: str, status: int) -> int:
    """Print a message to stderr, prefixed `tinykube: `; returns the given status unchanged."""
    sys.stderr.write(f"tinykube: {message}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
