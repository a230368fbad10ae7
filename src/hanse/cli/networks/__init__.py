"""`hanse networks`: tenant networks, and which of them policies let reach which."""
