"""`hanse resolve`: DNS answers of each cluster, with the reasons."""
