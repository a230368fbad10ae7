"""CoreDNS and Knot with the names of a benchmark, and dnsperf that asks for them."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import dns.asyncquery
import dns.exception
import dns.message
import msgspec

from bench.figures import percentile
from bench.row import Skip
from bench.rows.embedded import create_all, service
from bench.served import connected
from hanse.kube.client_config import ClientConfig
from hanse.kube.transport import Request
from hanse.local.kubeconfig import Context, write_kubeconfig
from hanse.local.real.binaries import cache_folder, find_programs
from hanse.local.real.errors import ProgramMissing
from hanse.local.real.programs import COREDNS_SERVER

NAMES = 5_000
ZONE = "cluster.local"
PACKAGES = {"dnsperf": "dnsperf", "knotd": "knot"}
CALLERS = 20
PATIENCE = 30.0
_SERVICES = "/api/v1/namespaces/default/services"


async def addresses_in(access: ClientConfig) -> dict[str, str]:
    """The address of each name: that of a Service which the cluster was asked to create."""
    async with connected(access) as way:
        await create_all(way, _SERVICES, [service(n) for n in range(NAMES)], at_once=8)
        listed = msgspec.json.decode((await way.send(Request("GET", _SERVICES))).body)
    return {
        f"{one['metadata']['name']}.default.svc.{ZONE}": one["spec"]["clusterIP"]
        for one in listed["items"]
        if one["metadata"]["name"] != "kubernetes"
    }


def coredns_command(program: Path, folder: Path, access: ClientConfig, port: int) -> Sequence[str]:
    write_kubeconfig(folder / "kubeconfig", [Context("bench", access)])
    corefile = folder / "Corefile"
    corefile.write_text(
        f"{ZONE}:{port} {{\n"
        "  bind 127.0.0.1\n"
        f"  kubernetes {ZONE} {{\n    kubeconfig {folder / 'kubeconfig'} bench\n  }}\n"
        "}\n"
    )
    return (str(program), "-conf", str(corefile))


def knot_command(
    folder: Path, zone: str, records: Iterable[str], port: int, workers: int
) -> Sequence[str]:
    """Knot with the records of a zone, in a folder of its own."""
    folder.mkdir()
    file, configuration = folder / "zone", folder / "knot.conf"
    apex = (f"{zone}. 5 SOA ns.{zone}. h.{zone}. 1 5 5 5 5\n", f"{zone}. 5 NS ns.{zone}.\n")
    file.write_text("".join((*apex, *records)))
    configuration.write_text(
        f"server:\n  rundir: {folder}\n  listen: 127.0.0.1@{port}\n  udp-workers: {workers}\n"
        f"database:\n  storage: {folder}\n"
        f"zone:\n  - domain: {zone}\n    storage: {folder}\n    file: {file}\n"
    )
    return ("knotd", "-c", str(configuration))


@asynccontextmanager
async def program_running(command: Sequence[str], log: Path) -> AsyncIterator[None]:
    with log.open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=said, stderr=said
        )
    try:
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def serves(server: str, port: int, addresses: Mapping[str, str]) -> None:
    """Wait until a server answers, and make sure that it answers what it should."""
    first = next(iter(addresses))
    async with asyncio.timeout(PATIENCE):
        while await answer_of(first, port) is None:  # noqa: ASYNC110 - it tells when asked
            await asyncio.sleep(0.1)
    for name in list(addresses)[:: -(-len(addresses) // 50)]:
        answer = await answer_of(name, port)
        assert answer == addresses[name], f"{server} says {answer} for {name}"


async def answer_of(name: str, port: int) -> str | None:
    query = dns.message.make_query(name, "A")
    try:
        answer = await dns.asyncquery.udp(query, "127.0.0.1", timeout=1, port=port)
    except (dns.exception.Timeout, OSError):
        return None
    return answer.answer[0][0].to_text() if answer.answer else None


async def queries_per_second(
    port: int, queries: Path, seconds: int, cores: Sequence[int] = ()
) -> float:
    """As many as a server answers, asked from some cores, or from any."""
    said = await _dnsperf(port, queries, seconds, cores)
    codes = re.search(r"Response codes:\s+NOERROR \d+ \(100.00%\)", said)
    rate = re.search(r"Queries per second:\s+([\d.]+)", said)
    assert codes is not None, f"not every query was answered well:\n{said}"
    assert rate is not None, said
    return float(rate[1])


async def latencies(
    port: int, queries: Path, seconds: int, rate: int, cores: Sequence[int] = ()
) -> list[float]:
    """Seconds that each answer took at a steady rate of questions."""
    said = await _dnsperf(port, queries, seconds, cores, "-Q", str(rate), "-v")
    return [float(took) for took in re.findall(r"^> NOERROR \S+ A ([\d.]+)$", said, re.MULTILINE)]


async def _dnsperf(port: int, queries: Path, seconds: int, cores: Sequence[int], *more: str) -> str:
    options = ("-s", "127.0.0.1", "-p", str(port), "-d", str(queries), "-l", str(seconds))
    command = ("dnsperf", *options, "-c", str(CALLERS), "-e", *more)
    return await _output(*on_cores(cores), *command)


def on_cores(cores: Sequence[int]) -> tuple[str, ...]:
    """What is put before a command that may use some cores only."""
    return ("taskset", "-c", ",".join(map(str, cores))) if cores else ()


def p99(seconds: list[float]) -> float:
    """Milliseconds within which 99 of 100 were answered."""
    assert seconds, "nothing was answered"
    return 1000 * percentile(seconds, 0.99)


async def coredns() -> Path:
    """CoreDNS as built."""
    try:
        built = await find_programs((COREDNS_SERVER,), cache_folder())
    except ProgramMissing as missing:
        raise Skip(str(missing)) from None
    return built[COREDNS_SERVER.name]


async def packages() -> None:
    """Knot and dnsperf as packaged: installed if that is up to us."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if missing:
        await _install(missing)


async def _install(packages: Sequence[str]) -> None:
    remedy = f"not installed: {', '.join(packages)}; run `apt-get install {' '.join(packages)}`"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Skip(remedy)
    quietly = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # packages start nothing
    for arguments in (("update",), ("install", "-y", "--no-install-recommends", *packages)):
        try:
            await _output("apt-get", "-qq", *arguments, environment=quietly)
        except RuntimeError as error:
            raise Skip(f"{remedy} ({error})") from None


async def _output(*command: str, environment: Mapping[str, str] | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **(environment or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    if process.returncode:
        last = errors.decode().strip().splitlines()[-1:] or [f"status {process.returncode}"]
        raise RuntimeError(f"{command[0]}: {last[0]}")
    return output.decode()
