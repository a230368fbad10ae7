module hanse.dev/netcheck

go 1.25.0
