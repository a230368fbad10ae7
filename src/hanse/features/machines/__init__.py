"""Virtual machines as Services and as entities that policies select, within one cluster."""
