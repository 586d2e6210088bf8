"""Admission policies: rules by expression ([decision](docs/decisions/0078-policies.md)).

`policy` has the stored policies and which match a request; `plugin` is the base of the plugins, `validating` and
`mutating`. `expressions` compiles and evaluates, for match conditions of webhooks (`webhook_conditions`) too; `review`
and `params` have what expressions see, `validation` and `mutation` what a policy decides, `patches` applies mutations.
`type_checking` finds wrong types in stored policies.
"""
