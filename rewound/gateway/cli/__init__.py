"""The command `rewound`: `main` finds the subcommand, `serve` runs a server, and the folders have the other commands.

`journal/` reads and repairs journals, of servers too, `access/` makes credentials, `replay/` and `record`
play and capture journals, `dev` and `fixture/` run servers for tests. `memory_faults` prints a last line when LMDB
dies on a damaged file.
"""
