"""Admission policies tried on the past: `trial` evaluates them on the recorded writes of a journal, `sources` makes
journals of manifests and of the objects of servers.
"""
