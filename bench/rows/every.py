"""All rows, in the order in which they run: what needs little comes first."""

from bench.row import Row
from bench.rows.agent import FOOTPRINT, RESTART, RESTART_MANY
from bench.rows.beside import BESIDE
from bench.rows.clusters import CLUSTERS
from bench.rows.command import CLI
from bench.rows.dns import DNS
from bench.rows.dns_knot import DNS_KNOT, DNS_KNOT_MANY
from bench.rows.dns_latency import DNS_LATENCY
from bench.rows.dns_names import DNS_NAMES
from bench.rows.embedded import EMBEDDED
from bench.rows.embedded_http import EMBEDDED_HTTP
from bench.rows.federated import FEDERATED
from bench.rows.fleet import FLEET
from bench.rows.growth import GROWTH
from bench.rows.gslb import GSLB
from bench.rows.guard import GUARD, GUARD_PACKETS
from bench.rows.in_process import IN_PROCESS
from bench.rows.judgement import JUDGEMENT
from bench.rows.latency import LATENCY
from bench.rows.networks import NETWORKS_ROW
from bench.rows.page import PAGE
from bench.rows.reading import EVENT, LIST
from bench.rows.stateful import ROLL_OUT, SCALING, SHARES
from bench.rows.status import STATUS
from bench.rows.throughput import THROUGHPUT
from bench.rows.up import UP

ROWS: tuple[Row, ...] = (
    LIST,
    EVENT,
    BESIDE,
    JUDGEMENT,
    STATUS,
    PAGE,
    CLI,
    SHARES,
    EMBEDDED,
    EMBEDDED_HTTP,
    UP,
    IN_PROCESS,
    FEDERATED,
    NETWORKS_ROW,
    GUARD,
    GUARD_PACKETS,
    GSLB,
    CLUSTERS,
    THROUGHPUT,
    LATENCY,
    SCALING,
    ROLL_OUT,
    RESTART,
    RESTART_MANY,
    FOOTPRINT,
    FLEET,
    DNS_NAMES,
    DNS,
    DNS_LATENCY,
    DNS_KNOT,
    DNS_KNOT_MANY,
    GROWTH,
)
