"""`hanse gslb`: the state of the GSLB federation, and changes of its leader."""
