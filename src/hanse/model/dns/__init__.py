"""DNS as values: names and records in wire format, and the contract of zone sources."""
