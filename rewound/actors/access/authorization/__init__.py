"""Authorizers, one module for each mode; `chain` asks them in their order, `configuration` says which there are."""
