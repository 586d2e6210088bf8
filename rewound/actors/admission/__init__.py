"""Admission: the plugins that mutate, complete and validate a write before it is decided.

`built_in` lists the plugins in order and `selection` applies the flags; `plugin` is their interface, `request` their
input. `chain` compiles the plugins for each resource, operation and subresource. `plugins/` has them, `webhooks/` the
two that call webhooks; `caches` holds data of stored objects in memory.
"""
