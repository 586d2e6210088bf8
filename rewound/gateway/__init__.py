"""HTTP in and out: connections, the request pipeline, representations, discovery, health and the command line."""
