"""Standbys and backups: the journal's stream as a server sends it, and as others follow it (docs/standby.md).

`feed` serves the stream, `follower` follows it into one of `sinks`, `read_only` refuses writes to a standby. What the
stream consists of is in `journal.stream`, the journal of a standby in `journal.copy`, a backup in `journal.backup`.
"""
