"""`hanse verify`: whether packets, names and services arrive between clusters."""
