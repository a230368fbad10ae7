"""Writes one number after the other into an etcd, and prints each that was acknowledged.

    python etcd_writer.py ADDRESS…

A program of its own, since it runs in the network between the clusters.
"""

import base64
import http.client
import json
import sys
import time
from itertools import count


def put(address: str, key: str) -> bool:
    """Whether a member acknowledges a write."""
    encoded = base64.b64encode(key.encode()).decode()
    connection = http.client.HTTPConnection(address, 2379, timeout=2)
    try:
        connection.request("POST", "/v3/kv/put", json.dumps({"key": encoded, "value": encoded}))
        response = connection.getresponse()
        return response.status == 200 and b"header" in response.read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def main(members: list[str]) -> None:
    """Write through one member after the other, and through the next one if it does not answer."""
    for number in count():
        key = f"n{number}"
        while not any(
            put(members[(number + at) % len(members)], key) for at in range(len(members))
        ):
            time.sleep(0.05)
        sys.stdout.write(f"{key} {time.monotonic()}\n")
        sys.stdout.flush()
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1:])
