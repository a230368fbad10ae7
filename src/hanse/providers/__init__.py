"""External systems: Avi controllers, name servers, probes, resolvers, tokens, network IPAM."""
