"""`hanse console`: the page over a whole fleet, read-only, for people with their own tokens."""
