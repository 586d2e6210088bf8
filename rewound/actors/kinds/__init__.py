"""The kinds of objects: their names, fields, defaults and validation.

One module per API group declares its kinds (`core/` has one per kind); `built_in` lists the groups. `catalog` is an
immutable snapshot of all kinds, and `registry` publishes the next one when CustomResourceDefinitions are added or
removed (`apiextensions` declares that kind, `custom` turns stored ones into definitions, `structural/` compiles their
schemas). `declaration/` has what a kind declares, `schema/` the types of fields and their decoders, `validation` the
errors of fields and the formats that kinds share, `enablement` what `--runtime-config` turns on or off.
"""
