"""Atomic: a write is visible as a whole or not at all, and a list shows one state over all its pages."""

from __future__ import annotations

from bisect import bisect_left

from tests.robustness.guarantees import GuaranteeBroken
from tests.robustness.history import History, PagedList
from tests.robustness.journal_contents import JournalContents
from tests.robustness.objects import (
    TEST_KEYS,
    Document,
    Key,
    TornObject,
    author_of,
    bare,
    content_of,
    key_of,
    token_of,
    version_of,
)
from tests.robustness.validate.responses import seen_objects


def atomic(history: History) -> None:
    _writes_are_complete(history)
    for paged in history.lists:
        if paged.pages:
            _pages_are_one_version(paged)
            _shows_its_version(history, paged)


def _writes_are_complete(history: History) -> None:
    partly_sent = {operation.number: operation for operation in history.operations if not operation.complete}
    for seen_object in seen_objects(history):
        try:
            content_of(seen_object.key.plural, seen_object.body)
        except TornObject as torn:
            raise GuaranteeBroken("Atomic", f"{seen_object.where}: {torn}") from None
        author = author_of(seen_object.body)
        if author in partly_sent:
            raise GuaranteeBroken(
                "Atomic", f"{partly_sent[author]} was partly sent, but {seen_object.where} shows it"
            )


def _pages_are_one_version(paged: PagedList) -> None:
    versions = {page.version for page in paged.pages}
    if len(versions) != 1:
        raise GuaranteeBroken("Atomic", f"the pages of {paged} are of versions {sorted(versions)}")
    if paged.exact and versions != {paged.version}:
        raise GuaranteeBroken("Atomic", f"{paged} returned {versions}")


def _shows_its_version(history: History, paged: PagedList) -> None:
    version = paged.pages[0].version
    contents = _contents_at(history, version)
    if contents is None:
        return
    expected = [
        (key, body) for key, body in sorted(contents.at(version).items()) if _selected(paged, key, body)
    ]
    items = [(key_of(paged.plural, item), bare(item)) for page in paged.pages for item in page.items]
    shown = [(key, body) for key, body in items if key in TEST_KEYS]
    wanted = expected if paged.complete else expected[: len(shown)]
    if shown != wanted:
        raise GuaranteeBroken("Atomic", f"{paged} at {version} {_difference(shown, wanted)}")


def _contents_at(history: History, version: int) -> JournalContents | None:
    """The first journal contents that reach a version; None when it is below the retention floor."""
    all_contents = [run.contents for run in history.runs]
    at = bisect_left(all_contents, version, key=lambda contents: contents.head)
    return all_contents[at] if at < len(all_contents) and all_contents[at].floor <= version else None


def _selected(paged: PagedList, key: Key, body: Document) -> bool:
    return (
        key.plural == paged.plural
        and paged.namespace in (None, key.namespace)
        and (not paged.color or body["metadata"]["labels"]["color"] == paged.color)
    )


def _difference(shown: list[tuple[Key, Document]], wanted: list[tuple[Key, Document]]) -> str:
    surplus = [_brief(*one) for one in shown if one not in wanted]
    missing = [_brief(*one) for one in wanted if one not in shown]
    return f"shows {surplus or 'nothing else'}, and the log also has {missing or 'nothing, in another order'}"


def _brief(key: Key, body: Document) -> str:
    return f"{key} version {version_of(body)} {token_of(body)}"
