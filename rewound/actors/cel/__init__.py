"""The Common Expression Language as in cel-go, for validation rules of custom resources and `replay --stop-when`.

`parser` and `checker` read an expression (`recovery` explains syntax errors), `cost_estimate` bounds its cost,
`planner` turns it into a `program`. An evaluation uses `operations`, `library` and the values of objects (`data`).
`kwok` has the dialect of kwok. Pure, and imports nothing of kinds.
"""
