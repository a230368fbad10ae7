"""DNS: zones and answers as pure values, and the server that looks them up."""
