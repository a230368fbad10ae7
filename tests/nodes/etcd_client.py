"""Writes one number after the other into an etcd and reads from every member meanwhile.

    python etcd_client.py ADDRESS…

It prints each write that was acknowledged and each read that a quorum confirmed, with their times.
A program of its own, since it runs in the network between the clusters.
"""

import base64
import http.client
import json
import os
import sys
import time
from itertools import count
from threading import Thread

READ_SECONDS = 1
"""The deadline of a read."""
PAUSE_SECONDS = 0.05
"""How long the client waits after each request."""


def post(address: str, path: str, seconds: float, **body: str) -> bool:
    """Whether a member answers a request in time without an error; fields are encoded as etcd's."""
    encoded = {field: base64.b64encode(text.encode()).decode() for field, text in body.items()}
    connection = http.client.HTTPConnection(address, 2379, timeout=seconds)
    try:
        connection.request("POST", path, json.dumps(encoded))
        response = connection.getresponse()
        return response.status == 200 and b"header" in response.read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def record(what: str) -> None:
    """Print a line with the time, whole also if other threads print."""
    os.write(sys.stdout.fileno(), f"{what} {time.monotonic()}\n".encode())


def read(member: str) -> None:
    """Read through one member for ever; etcd's reads are linearizable unless asked otherwise."""
    while True:
        if post(member, "/v3/kv/range", READ_SECONDS, key="n0"):
            record("read")
        time.sleep(PAUSE_SECONDS)


def main(members: list[str]) -> None:
    """Write through one member after the other, and through the next one if it does not answer."""
    for member in members:
        Thread(target=read, args=(member,), daemon=True).start()
    for number in count():
        key = f"n{number}"
        while not any(
            post(members[(number + at) % len(members)], "/v3/kv/put", 2, key=key, value=key)
            for at in range(len(members))
        ):
            time.sleep(PAUSE_SECONDS)
        record(key)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
