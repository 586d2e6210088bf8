"""The indexes of the page: the timeline's and that of words, built on demand and stored in one file.

Nothing is read before the first request. The first timeline waits a short time for the newest events; a task reads
the older ones and then all words, and ends when it has them. Requests that need words wait for those of the newest
events. If there is no index of words (no FTS5, no room on the disk), they get an error; all others work without it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

import trio

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.registry import Registry
from rewound.actors.rewind.index_file import Covered, IndexFile, Unavailable
from rewound.actors.rewind.long_work import LongWork
from rewound.actors.rewind.search import Seen, TextIndex, narrowed, restricted
from rewound.actors.rewind.timeline import Filter, LeftOut, TimelineIndex
from rewound.actors.runtime import turns
from rewound.actors.runtime.threads import run_in_thread
from rewound.gateway.describe.discovery import rewindable
from rewound.gateway.pipeline.errors import BackendUnavailable
from rewound.journal.log import Journal
from rewound.rewind.turns import run_in_turns

logger = logging.getLogger(__name__)

FIRST_LOOK: Final = 0.3  # seconds that the first requests wait for older events
_STRETCH: Final = 0.05  # seconds of reading older events, then a request gets its turn
_REST: Final = 5.0  # seconds: a page that follows polls often, and a small batch costs as much as a large one
_PAUSE: Final = 60.0  # seconds until the next attempt, after an error of the disk
_NEWEST_BATCHES: Final = 2  # batches that a search waits for
_LOOKS, _MOMENT = (
    10,
    0.05,
)  # how often, and after how many seconds, it looks whether another process has stored them

Start = Callable[[Callable[[], Awaitable[None]]], None]  # starts a task
T = TypeVar("T")


class NoIndex(BackendUnavailable):
    """There is no index of words."""

    def __init__(self, why: str) -> None:
        super().__init__(f"q and status need an index, which cannot be used: {why}")


class PageIndex:
    def __init__(self, journal: Journal, registry: Registry, start: Start, stop: trio.Event) -> None:
        self._journal = journal
        self._registry = registry
        self._start = start
        self._stop = stop
        self.timeline = TimelineIndex(journal)
        self.updating = trio.Lock()  # held while the timeline's index changes
        self._opening, self._indexing = trio.Lock(), trio.Lock()
        self._first_look: float | None = None  # until when requests wait for older events
        self._file: IndexFile | None = None
        self._text: TextIndex | None = None
        self._problem, self._next_attempt = "", 0.0
        self._asked, self._runs, self._reads_words = trio.Event(), False, False  # the task
        self._named: tuple[Catalog, dict[int, str]] | None = None

    async def update(self) -> None:
        """Bring the timeline's index up to date; older events may still be missing (`timeline.complete`)."""
        await self._open()
        async with self.updating:
            if self._first_look is None:
                self._first_look = turns.now() + FIRST_LOOK
            await run_in_turns(self.timeline.update(partial(_is_over, self._first_look)))
        self._asked.set()

    async def update_all(self) -> None:
        """Bring the timeline's index up to date, with all older events."""
        await self._open()
        async with self.updating:
            await run_in_turns(self.timeline.update())
        self._asked.set()

    async def text(self) -> TextIndex:
        """The index of words, with those of the newest events. Raises NoIndex."""
        await self.update()
        with self._refusing():
            text, file = self._usable(), self._file
            assert file is not None
            for _ in range(_LOOKS):
                if await self._has_newest(text, file):
                    break
                await trio.sleep(_MOMENT)
            return text

    async def _has_newest(self, text: TextIndex, file: IndexFile) -> bool:
        """Index the newest events; returns False if another process is doing so."""
        async with self._indexing:
            await run_in_turns(text.refresh())
            if not self._is_behind(text):
                return True
            if not await self._claim(file):
                return False
            for _ in range(_NEWEST_BATCHES):
                if not self._is_behind(text) or not await self._index_next(text):
                    break
            if not self._reads_words:
                await run_in_thread(file.release)
            return True

    async def status_only(self, text: TextIndex) -> LeftOut:
        """The updates that changed status only, as far as words are indexed. Raises NoIndex."""
        with self._refusing():
            async with self._indexing:
                await run_in_turns(text.statuses.refresh(self.timeline.start))
        return text.statuses.of

    async def updates_of_status(self, sought: Filter) -> tuple[LeftOut | None, dict[str, str] | None]:
        """The updates that a filter leaves out, and how far these are known if not all are. Raises NoIndex."""
        if sought.status:
            return None, None
        text = await self.text()
        return await self.status_only(text), self.indexed(text)

    async def search(self, steps: LongWork[T]) -> T:
        """Run a search in the file. Raises NoIndex."""
        with self._refusing():
            return await run_in_turns(steps)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except Unavailable as error:
            self._give_up(error)
            raise NoIndex(str(error)) from None

    def expression(self, seen: list[Seen], sought: Filter) -> str:
        """The search expression for a filter among the events that a caller may see; empty if it sees none."""
        with self._journal.read() as view:
            written = view.written_types()
        return restricted(narrowed(sought), seen, written, sought.verb.wanted)

    def indexed(self, text: TextIndex) -> dict[str, str] | None:
        """The events whose words are indexed, as long as that is not all."""
        covered, index = text.covered or Covered(self.timeline.upto, self.timeline.upto), self.timeline
        if covered.low <= index.start and covered.high >= index.upto:
            return None
        return {
            "from": str(max(covered.low, index.start) + 1),
            "upto": str(covered.high),
            "oldest": str(index.start + 1),
            "newest": str(index.upto),
        }

    def _is_behind(self, text: TextIndex) -> bool:
        return text.covered is None or text.covered.high < self._journal.head

    # The file.

    async def _open(self) -> None:
        if not self._runs:
            self._runs = True
            self._start(self.run)
        async with self._opening:
            if self._file is not None and not self._file.broken:
                return
            if self._stop.is_set() or trio.current_time() < self._next_attempt:
                return
            try:
                if self._file is not None:
                    await run_in_thread(self._file.close)
                self._file = await run_in_thread(IndexFile, self._journal)
            except Unavailable as error:
                self._give_up(error)
                return
            self._text = TextIndex(self._journal, self._file, self._describe)
            self.timeline.blocks = self._file
            self._problem = ""

    def _give_up(self, error: Unavailable) -> None:
        if str(error) != self._problem:
            logger.warning("the index of the journal's page is not stored: %s", error)
        self._problem = str(error)
        if self._file is None or not self._file.broken:
            self._next_attempt = trio.current_time() + _PAUSE

    def _usable(self) -> TextIndex:
        if self._text is None or self._file is None or self._file.broken:
            raise Unavailable(self._problem or "the server stops")
        return self._text

    def _describe(self, type_id: int) -> str:
        """The names of a type that people use."""
        catalog = self._registry.current
        if self._named is None or self._named[0] is not catalog:
            names = {number: name for name, number in self._journal.types().items()}
            for name, definition in reversed(list(rewindable(catalog))):
                names[self._journal.type_id(definition.type_name)] = f"{definition.kind} {name}"
            self._named = catalog, names
        return self._named[1].get(type_id, "")

    # The task.

    async def run(self) -> None:
        """Build the rest of the indexes, from the first request until the server stops."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_when_asked)
                await self._stop.wait()
                nursery.cancel_scope.cancel()
        finally:
            if self._file is not None:
                with trio.CancelScope(shield=True):
                    await run_in_thread(self._file.close)

    async def _read_when_asked(self) -> None:
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            try:
                await self._read_older()
                await self._read_words()
            except Unavailable as error:
                self._give_up(error)
            except Exception:  # the journal is damaged: a request for that part reports it
                logger.exception("the index of the journal's page could not be read to its end")
            await trio.sleep(_REST)

    async def _read_older(self) -> None:
        while not self.timeline.complete:
            async with self.updating:
                until = turns.now() + _STRETCH
                await run_in_turns(self.timeline.update(partial(_is_over, until), shows=False))

    async def _read_words(self) -> None:
        text, file = self._usable(), self._file
        assert file is not None
        async with self._indexing:
            await run_in_turns(text.refresh())
        goes_on = self._is_behind(text) or self.indexed(text) is not None
        if not goes_on:
            return
        self._reads_words = True
        try:
            while goes_on:
                async with self._indexing:
                    goes_on = await self._claim(file) and await self._index_next(text)
        finally:
            self._reads_words = False
        await run_in_thread(file.release)

    async def _claim(self, file: IndexFile) -> bool:
        """Whether this process, among those of the server, may write words."""
        return await run_in_thread(file.claim, self.timeline.start)

    async def _index_next(self, text: TextIndex) -> bool:
        return await run_in_turns(text.index_next(self.timeline.start, self._journal.head))


def _is_over(until: float) -> bool:
    return turns.now() >= until
