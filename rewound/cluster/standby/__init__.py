"""Standbys and backups: the stream of a journal, as a server sends it and as others follow it (docs/standby.md).

`feed` serves the stream, `follower` follows it into one of `sinks`, `read_only` refuses writes to a standby. The frames
of the stream are in `journal.stream`, the journal of a standby in `journal.copy`, a backup in `journal.backup`.
"""
