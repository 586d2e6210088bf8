"""Admission policies: rules by expression.

Begin with `expressions`, which compiles and evaluates the expressions of policies and of match conditions of webhooks.
"""
