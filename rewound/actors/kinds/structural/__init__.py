"""Structural schemas of custom resources: `compile` turns one into a decoder, defaults, pruning and validation."""
