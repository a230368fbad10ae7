"""How the DNS server is, for those who ask over HTTP."""

from hanse.dns.compiler import Compiler
from hanse.health import Readiness


def readiness(compiler: Compiler) -> Readiness:
    """Names are answered once everything was read: before that every question fails."""
    if compiler.synced:
        return Readiness(ready=True, text="ready")
    return Readiness(ready=False, text="not ready: the cluster was not read in full yet")
