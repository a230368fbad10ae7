"""`hanse plan`: dry runs of files, and what agents would write after them."""
