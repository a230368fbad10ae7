"""Network namespaces as pods, a router with nftables rules between them, and packets.

Run under `unshare -rn` with a plan on standard input; prints who reached whom, which datagrams
pods heard and which neighbours of the plan they know, as JSON. Pods are wired to the router each
by itself, or to a bridge. Pods are called by their address, or by `names` where several have one;
they then have a bridge (`bridges`) or a routing table (`tables`) for each group of them, and tables
may have more routes (`leaks`).
"""

import fcntl
import inspect
import json
import socket
import struct
import subprocess
import sys
import time
from typing import Any


def wait_for_link(name: str) -> None:
    """Wait until a link runs: before that, its packets are dropped without a word."""
    request = struct.pack("16sH", name.encode(), 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        while not struct.unpack_from("16sH", fcntl.ioctl(one, SIOCGIFFLAGS, request))[1] & RUNNING:
            time.sleep(0.01)


SIOCGIFFLAGS, RUNNING = 0x8913, 0x40
PREAMBLE = f"""
import fcntl, json, socket, struct, sys, threading, time
SIOCGIFFLAGS, RUNNING = {SIOCGIFFLAGS}, {RUNNING}
{inspect.getsource(wait_for_link)}
"""
POD = """
print("here", flush=True)
plan = json.loads(sys.stdin.readline())
def serve(door):
    while True:
        guest = door.accept()[0]
        guest.sendall(plan["name"].encode())
        guest.close()
def drain(hall):
    while True:
        try:
            yield hall.recv(100, socket.MSG_DONTWAIT).decode()
        except BlockingIOError:
            return
both = {"family": socket.AF_INET6, "dualstack_ipv6": True}
doors = [socket.create_server(("::", port), **both, backlog=64) for port in plan["ports"]]
halls = [socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET6)]
halls[1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
for hall, address in zip(halls, ("0.0.0.0", "::")):
    hall.bind((address, plan["udp"]))
try:
    group = socket.inet_aton("224.0.0.251") + struct.pack("@Ii", 0, socket.if_nametoindex("eth0"))
    halls[0].setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
except OSError:
    pass  # a pod without IPv4
for door in doors:
    threading.Thread(target=serve, args=(door,), daemon=True).start()
wait_for_link("eth0")
print("serving", flush=True)
answers = {}
def knock(host, port):
    try:
        # longer than a second: what loses its first packet on a busy machine sends another then
        with socket.create_connection((host, port), 2.5) as there:
            said = there.recv(100).decode()
    except OSError:
        said = ""
    answers[host, port] = said
def send(source, target, word):
    if source:  # forged
        body = struct.pack("!HHHH", 9, plan["udp"], 8 + len(word), 0) + word.encode()
        ends = socket.inet_aton(source), socket.inet_aton(target)
        head = struct.pack("!BBHHHBBH4s4s", 69, 0, 20 + len(body), 0, 0, 64, 17, 0, *ends)
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        raw.sendto(head + body, (target, 0))
        return
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    voice = socket.socket(family, socket.SOCK_DGRAM)
    voice.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    scope = socket.if_nametoindex("eth0")
    try:
        voice.sendto(word.encode(), (target, plan["udp"], 0, scope)[: 4 if ":" in target else 2])
    except OSError:
        pass
sys.stdin.readline()
threads = [threading.Thread(target=knock, args=tuple(t)) for t in plan["tries"]]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps([(said, port) for (_, port), said in answers.items() if said]), flush=True)
def send_frame(frame):
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    wire.bind(("eth0", 0))
    wire.send(bytes.fromhex(frame))
for attempt in plan["sends"]:
    send_frame(attempt) if isinstance(attempt, str) else send(*attempt)
print("sent", flush=True)
sys.stdin.readline()
print(json.dumps(sorted({w for hall in halls for w in drain(hall)})), flush=True)
sys.stdin.readline()
"""
UDP = 9000


def run(*command: str, text: str | None = None) -> None:
    subprocess.run(command, input=text, text=True, check=True)


def begin(number: int, address: str, bridge: str, table: str) -> "subprocess.Popen[str]":
    """A pod: a process in a network namespace of its own, with one wire to the machine."""
    pod = subprocess.Popen(
        ["unshare", "-n", sys.executable, "-c", PREAMBLE + POD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert pod.stdout is not None
    assert pod.stdout.readline() == "here\n"
    wire, inside = f"pod{number}", ("nsenter", "-t", str(pod.pid), "-n", "ip")
    hardware = f"02:00:00:00:00:{number:02x}"
    run("ip", "link", "add", wire, "type", "veth", "peer", "name", "eth0", "netns", str(pod.pid))
    run(*inside, "link", "set", "eth0", "address", hardware)
    run(*inside, "link", "set", "lo", "up")
    six = ":" in address
    bits, more = ("128", ("nodad",)) if six else ("32", ())
    if bridge:
        run("ip", "link", "set", wire, "master", bridge, "up")
        bits = "64" if six else "16"
        run(*inside, "addr", "add", f"{address}/{bits}", "dev", "eth0", *more)
        run(*inside, "link", "set", "eth0", "up")
        return pod
    gateway = f"fd0f:{number:x}::1" if six else f"10.255.{number}.1"
    run("ip", "addr", "add", f"{gateway}/{bits}", "dev", wire, *more)
    run("ip", "link", "set", wire, "up")
    run("ip", "route", "add", f"{address}/{bits}", "dev", wire, "table", table)
    if table != "main":
        run("ip", "rule", "add", "iif", wire, "table", table)
    run(*inside, "addr", "add", f"{address}/{bits}", "dev", "eth0", *more)
    run(*inside, "link", "set", "eth0", "up")
    run(*inside, "route", "add", f"{gateway}/{bits}", "dev", "eth0")
    run(*inside, "route", "add", "default", "via", gateway, "dev", "eth0")
    return pod


def set_up(plan: dict[str, Any]) -> None:
    settings = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"]
    run("ip", "link", "set", "lo", "up")
    bridges = set(plan.get("bridges", ["br0"] if plan.get("bridged") else []))
    for bridge in sorted(bridges):
        run("ip", "link", "add", bridge, "type", "bridge", "mcast_snooping", "0")
        run("ip", "addr", "add", "10.4.255.254/16", "dev", bridge)
        run("ip", "addr", "add", "fd04::ffff/64", "dev", bridge, "nodad")
        run("ip", "link", "set", bridge, "up")
    if bridges:
        settings += [f"net/bridge/bridge-nf-call-{name}" for name in ("iptables", "ip6tables")]
    for setting in settings:
        with open(f"/proc/sys/{setting}", "w") as switch:
            switch.write("1")
    run("nft", "-f", "-", text=plan["rules"])


def neighbours(pid: int, watched: set[str]) -> dict[str, str]:
    """The hardware addresses that a pod knows of some others."""
    if not watched:
        return {}
    command = ["nsenter", "-t", str(pid), "-n", "ip", "-j", "neigh"]
    lines: list[dict[str, str]] = json.loads(subprocess.check_output(command))
    return {n["dst"]: n["lladdr"] for n in lines if n["dst"] in watched and "lladdr" in n}


def begin_all(plan: dict[str, Any]) -> "list[subprocess.Popen[str]]":
    """The pods of a plan, and the routes that lead elsewhere."""
    addresses = plan["addresses"]
    bridges = plan.get("bridges", ["br0" if plan.get("bridged") else ""] * len(addresses))
    tables = plan.get("tables", ["main"] * len(addresses))
    pods = [begin(n, *one) for n, one in enumerate(zip(addresses, bridges, tables, strict=True))]
    for table, address, number in plan.get("leaks", []):
        run("ip", "route", "replace", address, "dev", f"pod{number}", "table", table)
    return pods


def main() -> None:
    plan: dict[str, Any] = json.loads(sys.stdin.read())
    set_up(plan)
    addresses, sends = plan["addresses"], plan.get("sends", {})
    names, pods = plan.get("names", addresses), begin_all(plan)

    def tell(line: str) -> None:
        for pod in pods:
            assert pod.stdin is not None
            print(line, file=pod.stdin, flush=True)

    def hear() -> "list[str]":
        lines = []
        for pod in pods:
            assert pod.stdout is not None
            lines.append(pod.stdout.readline())
        return lines

    tries = [(a, p) for a in dict.fromkeys(addresses) for p in plan["ports"]]
    for pod, name in zip(pods, names, strict=True):
        orders = {"ports": plan["ports"], "udp": plan.get("udp", UDP), "tries": tries}
        orders |= {"name": name, "sends": sends.get(name, [])}
        assert pod.stdin is not None
        print(json.dumps(orders), file=pod.stdin, flush=True)
    assert set(hear()) == {"serving\n"}
    for number in range(len(pods)):
        wait_for_link(f"pod{number}")
    tell("go")
    reached = [
        (source, a, p)
        for source, line in zip(names, hear(), strict=True)
        for a, p in json.loads(line)
    ]
    assert set(hear()) == {"sent\n"}
    tell("and what was heard?")
    heard = {a: json.loads(line) for a, line in zip(names, hear(), strict=True)}
    watched = set(plan.get("neighbours", []))
    known = {a: neighbours(pod.pid, watched) for a, pod in zip(names, pods, strict=True)}
    for pod in pods:
        pod.kill()
        pod.wait()
    sys.stdout.write(json.dumps({"reached": reached, "heard": heard, "known": known}) + "\n")


if __name__ == "__main__":
    main()
