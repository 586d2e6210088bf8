"""A journal served as it was, and played (docs/replay.md).

Read-only: `replay` combines a `source`, the `replay_server` at a position that moves, the `player` and its `control`;
`until` stops it at an expression. For controllers that write: `writable` serves a copy, `recorded_writes` applies the
recorded writes of others to it, `comparison` reports how it differs from the recording.
"""
