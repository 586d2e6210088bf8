"""The Common Expression Language as cel-go has it, for validation rules of custom resources and `replay --until`.

`parser` and `checker` read an expression (`recovery` explains syntax errors), `cost_estimate` bounds it, `planner`
makes a `program` of it. An evaluation uses `operations`, `library` and the values of objects (`data`). Pure, and
imports nothing of kinds.
"""
