"""`hanse doctor`: the lists that it reads of each cluster, and the checks over them."""
