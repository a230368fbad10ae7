"""AMKO federation of GSLB configuration, and global services for host names."""
