"""Bytes on disk: the event log, the latest state, snapshots, replay, retention and history."""
