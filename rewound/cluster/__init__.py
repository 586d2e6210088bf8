"""Servers on several machines: `etcd/` is the client of etcd, `standby/` streams a journal to standbys and backups.

`membership` joins a server to a cluster whose journal etcd orders; `account_key` gives all nodes one key for tokens.
"""
