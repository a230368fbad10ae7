"""Network namespaces as pods, a router with nftables rules between them, and connections.

Run under `unshare -rn` with a plan on standard input; prints who reached whom, as JSON.
"""

import json
import subprocess
import sys
from typing import Any

POD = """
import socket, sys, threading
def serve(port):
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("0.0.0.0", port)); door.listen(64)
    while True:
        door.accept()[0].close()
print("here", flush=True)
for port in sys.stdin.readline().split():
    threading.Thread(target=serve, args=(int(port),), daemon=True).start()
print("serving", flush=True)
def knock(line):
    host, port = line.split()
    try:
        socket.create_connection((host, int(port)), 1.0).close(); said = "yes"
    except OSError:
        said = "no"
    answers[line] = said
answers = {}
lines = [line.strip() for line in iter(sys.stdin.readline, "go\\n")]
threads = [threading.Thread(target=knock, args=(line,)) for line in lines]
[t.start() for t in threads]; [t.join() for t in threads]
for line in lines:
    print(answers[line], flush=True)
sys.stdin.readline()
"""


def run(*command: str, text: str | None = None) -> None:
    subprocess.run(command, input=text, text=True, check=True)


def begin(number: int, address: str) -> "subprocess.Popen[str]":
    """A pod: a process in a network namespace of its own, with one wire to the machine."""
    pod = subprocess.Popen(
        ["unshare", "-n", sys.executable, "-c", POD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert pod.stdout is not None
    assert pod.stdout.readline() == "here\n"
    wire, inside = f"pod{number}", ("nsenter", "-t", str(pod.pid), "-n", "ip")
    run("ip", "link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", str(pod.pid))
    run("ip", "addr", "add", f"10.255.{number}.1/32", "dev", wire)
    run("ip", "link", "set", wire, "up")
    run("ip", "route", "add", f"{address}/32", "dev", wire)
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "addr", "add", f"{address}/32", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")
    run(*inside, "route", "add", f"10.255.{number}.1/32", "dev", "eth0")
    run(*inside, "route", "add", "default", "via", f"10.255.{number}.1", "dev", "eth0")
    return pod


def main() -> None:
    plan: dict[str, Any] = json.loads(sys.stdin.read())
    with open("/proc/sys/net/ipv4/ip_forward", "w") as switch:
        switch.write("1")
    run("ip", "link", "set", "lo", "up")
    run("nft", "-f", "-", text=plan["rules"])
    pods = [begin(at, address) for at, address in enumerate(plan["addresses"])]
    for pod in pods:
        assert pod.stdin is not None
        assert pod.stdout is not None
        print(*plan["ports"], file=pod.stdin, flush=True)
        assert pod.stdout.readline() == "serving\n"
    tries = [(a, p) for a in plan["addresses"] for p in plan["ports"]]
    for pod in pods:
        assert pod.stdin is not None
        pod.stdin.write("".join(f"{a} {p}\n" for a, p in tries) + "go\n")
        pod.stdin.flush()
    reached = []
    for pod, source in zip(pods, plan["addresses"], strict=True):
        assert pod.stdout is not None
        reached += [(source, a, p) for a, p in tries if pod.stdout.readline() == "yes\n"]
    for pod in pods:
        pod.kill()
        pod.wait()
    sys.stdout.write(json.dumps(reached) + "\n")


if __name__ == "__main__":
    main()
