"""Chaos: faults of simulated nodes and of the API, by schedule and seed (docs/chaos.md).

`plan` reads a Chaos object and says when each fault begins and whom it hits; `controller` makes the faults happen, as
writes to Node objects, so that the journal has each of them with its author.
"""
