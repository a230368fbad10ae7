"""Records as people and zone files write them."""

import dns.rdata
import dns.rdataclass
import dns.rdatatype


def rdata_text(rtype: int, rdata: bytes) -> str:
    """The content of a record in words."""
    known = dns.rdatatype.RdataType.make(rtype)
    return str(dns.rdata.from_wire(dns.rdataclass.IN, known, rdata, 0, len(rdata)))


def type_name(rtype: int) -> str:
    """A record type in letters."""
    return dns.rdatatype.to_text(dns.rdatatype.RdataType.make(rtype))
