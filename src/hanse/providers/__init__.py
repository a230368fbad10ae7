"""Systems that are no cluster: Avi controllers, name servers, probes, resolvers, tokens."""
