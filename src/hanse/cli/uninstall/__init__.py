"""`hanse uninstall`: find and delete everything that Hanse made in a cluster."""
