"""Puts a server together from its flags: opens its store, builds what serves requests, and runs it until it stops.

Begin with `run`. `flags/` parses the flags of `rewound serve`, `open_store` builds everything below HTTP, `api_server`
the rest; `extensions` is what programs that embed a server may add; `process` configures the process around it.
"""
