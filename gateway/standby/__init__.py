"""Standbys and backups: the journal's stream as a server sends it, and as others follow it (docs/standby.md).

`feed` serves the stream, `follower` follows it into the journal of a standby, `read_only` refuses writes there. What
the stream consists of is in `journal.stream`, and the journal of a standby in `journal.copy`.
"""
