"""A server of several processes on one port. One of them, the writer process, has the actors; the others are workers.

`parent` starts the processes and replaces those that end; `writer` and `worker` are the two kinds; `channel` has the
messages between them, `shared_page` the numbers that all of them map into memory. `cli.child` is the entry point of a
process.
"""
