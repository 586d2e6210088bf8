"""The kinds of objects: what each is called, holds, defaults to and refuses.

One module per API group declares its kinds (`core/` has one per kind); `built_in` lists the groups. `catalog` is an
immutable snapshot of all kinds, and `registry` publishes the next one when CustomResourceDefinitions come or go
(`apiextensions` declares that kind, `custom` makes definitions of stored ones, `structural/` compiles their schemas).
`declaration/` has what a kind declares, `schema/` the types of fields and their decoders, `validation` the errors of
fields and the formats that kinds share, `enablement` and `features` what flags turn on or off.
"""
