"""Federation: members, their leaders, and what spans them. Pure."""
