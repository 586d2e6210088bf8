"""Recent: reads see what was acknowledged before they were sent, and at least the version they name."""

from __future__ import annotations

from tests.robustness.guarantees import GuaranteeBroken
from tests.robustness.history import GET, History, Operation
from tests.robustness.objects import Key, version_of
from tests.robustness.validate.responses import by_sending


def recent(history: History) -> None:
    _lists_are_recent(history)
    _gets_are_recent(history)


def _lists_are_recent(history: History) -> None:
    firsts = [(paged.pages[0], paged) for paged in history.lists if paged.pages and not paged.exact]
    firsts.sort(key=lambda first: first[0].sent)
    newest, writes = 0, iter(history.acknowledged)
    write = next(writes, None)
    for page, paged in firsts:
        while write is not None and write.ended < page.sent:
            newest = max(newest, write.made or 0)
            write = next(writes, None)
        if page.version < max(newest, paged.version or 0):
            raise GuaranteeBroken(
                "Recent", f"{paged} shows version {page.version}, {newest} was acknowledged before"
            )


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
            raise GuaranteeBroken("Recent", f"{get} does not see {last}")
