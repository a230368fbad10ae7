"""One etcd quorum over three clusters, whose members find each other by Hanse's DNS alone.

`run.sh` starts it within `hanse up`. The simulated nodes of a local federation run no containers:
each member is a process here that stands in for its pod. It listens where the pod and its load
balancer are, and knows nothing but the names that a pod would be told.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import dns.exception
import dns.message
import dns.query
import dns.rdatatype

T = TypeVar("T")
PATIENCE = 60.0
CLUSTERS = ("c1", "c2", "c3")
LOCAL = "etcd.quorum.svc.example.com"
EVERYWHERE = "etcd.quorum.myfederation.svc.example.com"


class Found(NamedTuple):
    """A member as DNS tells of it: its own label, and where it listens."""

    name: str
    address: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"


class Names:
    """The DNS view of one cluster."""

    def __init__(self, server: str) -> None:
        self._host, _, port = server.rpartition(":")
        self._port = int(port)

    def members(self, domain: str, service: str = "etcd-server") -> list[Found]:
        """Everybody who serves something in a domain, by SRV and the addresses of its targets."""
        found = []
        for record in self._ask(f"_{service}._tcp.{domain}", "SRV"):
            target = str(record.target)
            addresses = self._ask(target, "A")
            if addresses:
                label = target.partition(".")[0]
                found.append(Found(label, str(addresses[0]), record.port))
        return sorted(found)

    def all_of(self, domain: str, count: int) -> list[Found]:
        """All members of a domain once there are so many; none before."""
        found = self.members(domain)
        return found if len(found) == count else []

    def _ask(self, name: str, rtype: str) -> list[Any]:
        query = dns.message.make_query(name, rtype)
        answer = dns.query.udp(query, self._host, port=self._port, timeout=5)
        wanted = dns.rdatatype.from_text(rtype)
        return [record for rrset in answer.answer if rrset.rdtype == wanted for record in rrset]


class Member:
    """One etcd process in the place of a pod."""

    def __init__(self, found: Found, pod: Found, folder: Path) -> None:
        self.name = found.name
        self.peer = found.url
        self.client = f"http://{found.address}:2379"
        self._pod = pod
        self._folder = folder / found.name
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, initial: dict[str, str], *, existing: bool) -> None:
        """Run it; after the first time its own folder knows better than the arguments."""
        pod = self._pod.address
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    os.environ.get("ETCD") or shutil.which("etcd") or "etcd",
                    f"--name={self.name}",
                    f"--data-dir={self._folder / 'data'}",
                    f"--listen-peer-urls={self.peer},http://{pod}:2380",
                    f"--listen-client-urls={self.client},http://{pod}:2379",
                    f"--advertise-client-urls={self.client}",
                    f"--initial-advertise-peer-urls={initial[self.name]}",
                    f"--initial-cluster={','.join(f'{n}={u}' for n, u in initial.items())}",
                    f"--initial-cluster-state={'existing' if existing else 'new'}",
                    "--initial-cluster-token=quorum",
                    "--unsafe-no-fsync",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        eventually(self.is_healthy, f"{self.name} is healthy")

    def kill(self) -> None:
        """End it without a word, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def is_healthy(self) -> bool:
        """Whether it takes part in a quorum: a read that all must agree on."""
        self.call("kv/range", key=_coded("health"))
        return True

    def call(self, method: str, **body: Any) -> Any:
        request = urllib.request.Request(
            f"{self.client}/v3/{method}", json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)

    def add(self, other: "Member") -> bool:
        """Let another in; refused until all members have been well for a few seconds."""
        self.call("cluster/member/add", peerURLs=[other.peer])
        return True

    def put(self, key: str, value: str) -> None:
        self.call("kv/put", key=_coded(key), value=_coded(value))

    def get(self, key: str) -> str:
        found = self.call("kv/range", key=_coded(key)).get("kvs") or [{"value": ""}]
        return base64.b64decode(found[0]["value"]).decode()

    def ids(self) -> dict[str, str]:
        """Every member of the quorum by name."""
        return {m.get("name", ""): m["ID"] for m in self.call("cluster/member/list")["members"]}


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def eventually(check: Callable[[], T], what: str) -> T:
    """Wait until something holds, and say so."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            if found := check():
                print(f"ok: {what}", flush=True)
                return found
        except (OSError, urllib.error.URLError, dns.exception.DNSException, ValueError):
            pass
        if time.monotonic() > until:
            sys.exit(f"in {PATIENCE:.0f} s it did not come true that {what}")
        time.sleep(0.2)


def run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def views() -> dict[str, Names]:
    """Where each cluster's clients ask for names."""
    told = json.loads(run("hanse", "status", "--json"))
    servers = {one["name"]: one.get("dns", "") for one in told["clusters"]}
    return {name: Names(servers[name]) for name in CLUSTERS}


def form(names: dict[str, Names], folder: Path) -> dict[str, Member]:
    """First a quorum of one within c1 by local names, then the others by global names."""
    everybody = eventually(
        partial(names["c1"].all_of, EVERYWHERE, 3), "three members have addresses"
    )
    pods = {
        c: eventually(partial(names[c].all_of, LOCAL, 1), f"{c} has a pod")[0] for c in CLUSTERS
    }
    members = {
        cluster: Member(found, pods[cluster], folder)
        for cluster in CLUSTERS
        for found in everybody
        if found.name == pods[cluster].name
    }
    first = members["c1"]
    first.start({first.name: pods["c1"].url}, existing=False)
    own = first.ids()[first.name]
    first.call("cluster/member/update", ID=own, peerURLs=[first.peer])
    for cluster in ("c2", "c3"):
        member = members[cluster]
        peers = [m for m in names[cluster].members(EVERYWHERE) if m.name in first.ids()]
        eventually(partial(first.add, member), f"{member.name} is let in")
        initial = {**{peer.name: peer.url for peer in peers}, member.name: member.peer}
        member.start(initial, existing=True)
    return members


def survive(names: dict[str, Names], members: dict[str, Member]) -> None:
    """One cluster dies: the others go on, and it comes back as itself."""
    before = members["c1"].ids()
    members["c1"].put("written", "by all")
    members["c2"].kill()
    run("hanse", "local", "cut", "c2", "broker")
    eventually(
        lambda: [m.name for m in names["c1"].members(EVERYWHERE)] == ["store-c1-0", "store-c3-0"],
        "the dead cluster's member has left DNS",
    )
    members["c3"].put("written", "without c2")
    eventually(lambda: members["c1"].get("written") == "without c2", "the quorum holds")

    run("hanse", "local", "heal", "c2", "broker")
    back = eventually(
        lambda: [m for m in names["c1"].members(EVERYWHERE) if m.name == "store-c2-0"],
        "the member is known again by its own name",
    )
    assert back[0].url == members["c2"].peer, "its address is the one it had"
    members["c2"].start({members["c2"].name: members["c2"].peer}, existing=True)
    eventually(lambda: members["c2"].get("written") == "without c2", "it has caught up")
    assert members["c2"].ids() == before, "it is the member that it was"


def main() -> None:
    here = Path(__file__).parent
    names = views()
    lease = '{"spec": {"leaseDurationSeconds": 3}}'
    kubectl = ("kubectl", "--context", "broker")
    run(*kubectl, "patch", "clusterset", "local", "--type=merge", "-p", lease)
    run(*kubectl, "apply", "-f", str(here / "store.yaml"))
    with tempfile.TemporaryDirectory() as folder:
        members: dict[str, Member] = {}
        try:
            members = form(names, Path(folder))
            survive(names, members)
        finally:
            for member in members.values():
                member.kill()
    print("one quorum over three clusters: formed, held, whole again")


if __name__ == "__main__":
    main()
