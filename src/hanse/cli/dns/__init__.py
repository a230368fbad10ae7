"""`hanse dns`: its options, and the process that serves names."""
