"""Rehearses an upgrade: what a server of another version of Kubernetes would do with objects and requests.

`rehearsal` decides, with the definitions of both versions; `inputs` reads manifests, data folders, servers and audit
logs. `cli/upgrade_check.py` is the command.
"""
