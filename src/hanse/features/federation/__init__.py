"""Federation membership: members, how they are reached, and who leads them. Pure."""
