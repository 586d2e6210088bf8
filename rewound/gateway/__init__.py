"""HTTP in and out: connections, the request pipeline, handlers, representations, watches, discovery, health, audit."""
