"""Several processes that serve one port: workers serve requests, one writer process has the actors.

`parent` starts and replaces the others and says what becomes of a server when one ends; `writer` and `worker` are the
two kinds of processes; `channel` has the messages between them, `shared_page` the numbers that all of them map.
`gateway.cli.child` is where a process begins.
"""
