"""Structural schemas of custom resources: `compile` makes a decoder, defaults, pruning and validation of one."""
