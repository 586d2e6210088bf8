"""Recent: reads see what was acknowledged before they were sent, and at least the version they name."""

from __future__ import annotations

from tests.robustness.history import GET, History, Operation
from tests.robustness.objects import Key, version_of
from tests.robustness.promise import Broken
from tests.robustness.validate.told import by_sending


def recent(history: History) -> None:
    _lists_are_recent(history)
    _gets_are_recent(history)


def _lists_are_recent(history: History) -> None:
    firsts = [(walk.pages[0], walk) for walk in history.walks if walk.pages and not walk.exact]
    firsts.sort(key=lambda first: first[0].sent)
    newest, writes = 0, iter(history.acknowledged)
    write = next(writes, None)
    for page, walk in firsts:
        while write is not None and write.ended < page.sent:
            newest = max(newest, write.made or 0)
            write = next(writes, None)
        if page.version < max(newest, walk.version or 0):
            raise Broken("Recent", f"{walk} shows version {page.version}, {newest} was acknowledged before")


def _gets_are_recent(history: History) -> None:
    newest: dict[Key, Operation] = {}
    writes = iter(history.acknowledged)
    write = next(writes, None)
    gets = [one for one in history.operations if one.verb == GET and one.shown is not None]
    for get in by_sending(gets):
        while write is not None and write.ended < get.sent:
            known = newest.setdefault(write.key, write)
            if (write.made or 0) > (known.made or 0):
                newest[write.key] = write
            write = next(writes, None)
        last = newest.get(get.key)
        if last is not None and get.shown is not None and version_of(get.shown) < (last.made or 0):
            raise Broken("Recent", f"{get} does not see {last}")
