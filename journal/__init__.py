"""Rewound's journal: bytes on disk. Synchronous; knows lmdb and msgpack, and nothing of what a body means."""

from journal.log import Journal
from journal.records import Event, Row
from journal.state import Page
from journal.view import View

__all__ = ["Event", "Journal", "Page", "Row", "View"]
