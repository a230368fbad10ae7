"""`hanse gather`: a support bundle, without secrets."""
