"""Assembles a server from its flags: opens its store, builds its HTTP side, and runs it until it stops.

Begin with `run`. `flags/` parses the flags of `rewound serve`, `open_store` builds everything below HTTP, `api_server`
the rest; `extensions` has what an embedding program may add; `process` configures the process.
"""
