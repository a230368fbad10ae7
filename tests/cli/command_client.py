"""Runs a command in a fork of the command server: `command_client.py SOCKET ARGUMENT…`.

It imports as little as it can: it stands for `hanse` in shells.
"""

import json
import os
import signal
import socket
import sys


def main() -> None:
    """Hand descriptors, folder and environment to the command; end as it ends."""
    address, *arguments = sys.argv[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(address)
        request = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(server, [request], [0, 1, 2])
        pid = int(server.recv(100))
        for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(one, lambda number, _: os.kill(pid, number))
        status = server.recv(100)
    sys.exit(int(status) if status else 1)


if __name__ == "__main__":
    main()
