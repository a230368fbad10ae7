"""Zone data compiled at once, without a server."""

from collections.abc import Iterable

from hanse.dns.compiler import Compiler
from hanse.dns.messages import Delta
from hanse.model.dns.zones import View, ZoneSource
from hanse.model.snapshot import Snapshot


def compiled(view: View, sources: Iterable[ZoneSource], snapshot: Snapshot) -> Delta:
    """All names of a view."""
    compiler = Compiler(view, tuple(sources))
    compiler.enqueue_all(snapshot)
    compiler.compile(snapshot)
    return compiler.full_delta()
