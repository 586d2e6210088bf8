"""Authorizers, one module for each mode; `chain` asks them in the order of `--authorization-mode`."""
