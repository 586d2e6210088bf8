"""Several processes that serve one port. One of them, the writer process, has the actors; the others are workers.

`parent` starts and replaces the others and says what becomes of a server when one ends; `writer` and `worker` are the
two kinds of processes; `channel` has the messages between them, `shared_page` the numbers that all of them map.
`cli.child` is where a process begins.
"""
