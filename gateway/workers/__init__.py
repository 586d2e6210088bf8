"""Several processes that serve one port: workers serve requests, one writer process has the actors.

Begin with `channel`: the messages between a worker and the writer process.
"""
