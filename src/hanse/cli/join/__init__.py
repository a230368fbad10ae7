"""`hanse join`: the workflows of a broker and of a Federation, also behind `broker` and `leave`."""
