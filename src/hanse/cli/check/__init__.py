"""`hanse check`: whether clusters are fit for an installation."""
