"""Atomic: writes are there whole or not at all, and a list shows one state, over all its pages."""

from __future__ import annotations

from bisect import bisect_left

from tests.robustness.history import History, Walk
from tests.robustness.ledger import Ledger
from tests.robustness.objects import (
    OURS,
    Document,
    Key,
    Torn,
    author_of,
    bare,
    content_of,
    key_of,
    token_of,
    version_of,
)
from tests.robustness.promise import Broken
from tests.robustness.validate.told import sights


def atomic(history: History) -> None:
    _writes_are_whole(history)
    for walk in history.walks:
        if walk.pages:
            _pages_are_one_version(walk)
            _shows_its_version(history, walk)


def _writes_are_whole(history: History) -> None:
    cut_off = {operation.number: operation for operation in history.operations if not operation.complete}
    for sight in sights(history):
        try:
            content_of(sight.key.plural, sight.body)
        except Torn as torn:
            raise Broken("Atomic", f"{sight.where}: {torn}") from None
        author = author_of(sight.body)
        if author in cut_off:
            raise Broken("Atomic", f"{cut_off[author]} was cut off, and yet {sight.where} shows it")


def _pages_are_one_version(walk: Walk) -> None:
    versions = {page.version for page in walk.pages}
    if len(versions) != 1:
        raise Broken("Atomic", f"the pages of {walk} are of versions {sorted(versions)}")
    if walk.exact and versions != {walk.version}:
        raise Broken("Atomic", f"{walk} was answered with {versions}")


def _shows_its_version(history: History, walk: Walk) -> None:
    version = walk.pages[0].version
    ledger = _ledger_of(history, version)
    if ledger is None:
        return
    expected = [(key, body) for key, body in sorted(ledger.at(version).items()) if _selected(walk, key, body)]
    items = [(key_of(walk.plural, item), bare(item)) for page in walk.pages for item in page.items]
    shown = [(key, body) for key, body in items if key in OURS]
    wanted = expected if walk.complete else expected[: len(shown)]
    if shown != wanted:
        raise Broken("Atomic", f"{walk} at {version} {_difference(shown, wanted)}")


def _ledger_of(history: History, version: int) -> Ledger | None:
    """The first reading of the log that knows a version; None when retention was faster."""
    ledgers = [life.ledger for life in history.lives]
    at = bisect_left(ledgers, version, key=lambda ledger: ledger.head)
    return ledgers[at] if at < len(ledgers) and ledgers[at].floor <= version else None


def _selected(walk: Walk, key: Key, body: Document) -> bool:
    return (
        key.plural == walk.plural
        and walk.namespace in (None, key.namespace)
        and (not walk.color or body["metadata"]["labels"]["color"] == walk.color)
    )


def _difference(shown: list[tuple[Key, Document]], wanted: list[tuple[Key, Document]]) -> str:
    surplus = [_brief(*one) for one in shown if one not in wanted]
    missing = [_brief(*one) for one in wanted if one not in shown]
    return f"shows {surplus or 'nothing else'}, and the log also has {missing or 'nothing, in another order'}"


def _brief(key: Key, body: Document) -> str:
    return f"{key} version {version_of(body)} {token_of(body)}"
