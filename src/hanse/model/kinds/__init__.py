"""Every kind we read or write, one module per API area, with only the fields we use."""
