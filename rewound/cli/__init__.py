"""The command `rewound`: `main` finds the subcommand, `serve` runs a server, the folders have the other commands.

`journal/` reads and repairs journals, also those of running servers; `access/` creates credentials; `replay/` and
`record` play and capture journals; `dev` and `envtest` run servers for tests. `child` is where a worker process begins.
"""
