"""A journal for tests in which no follower of the feed fails: reading it is an error of the test."""

from __future__ import annotations

from typing import NoReturn


class UnreadJournal:
    def read(self) -> NoReturn:
        raise AssertionError("the feed read the journal: a follower failed, and the test expected none to")


UNREAD = UnreadJournal()
