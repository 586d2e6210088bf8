"""Rewound's journal: bytes on disk. Synchronous; uses lmdb and msgpack, and never interprets a body."""

from journal.log import Journal
from journal.records import Event, Row
from journal.state import Page
from journal.view import View

__all__ = ["Event", "Journal", "Page", "Row", "View"]
