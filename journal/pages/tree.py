"""Walks one B+tree of an LMDB file, and goes on after damage: what cannot be read becomes a hole.

    walk = Walk(file, "events", database, last_page, seen)
    for page in walk.leaves(): ...        page.number, page.nodes
    walk.holes                            ranges of keys that are on pages that cannot be read, with the reason

A key that is outside of all holes and was not found is not in the tree: `recover` depends on this.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import lt
from typing import NamedTuple

from journal.pages.layout import (
    BIG,
    BRANCH,
    FIRST_PAGE,
    LEAF,
    MAX_DEPTH,
    NO_PAGE,
    BadPage,
    Child,
    Database,
    Node,
    PageFile,
    branch_children,
    kind_of,
    leaf_nodes,
    page_number,
)


class Leaf(NamedTuple):
    """A leaf page that can be read. Every key from `low` up to but without `high` is on it, or nowhere."""

    number: int
    nodes: list[Node]
    low: bytes
    high: bytes | None


class Hole(NamedTuple):
    """Keys from `low` up to but without `high` (None: to the end) cannot be read."""

    page: int
    low: bytes
    high: bytes | None
    why: str
    single: bool = False  # one record, with the key `low`; not a page of the tree


@dataclass(slots=True)
class Counted:
    branch_pages: int = 0
    leaf_pages: int = 0
    overflow_pages: int = 0
    entries: int = 0


@dataclass(slots=True)
class Walk:
    """One walk over one tree. `seen` has the pages that any walk of this version of the file has reached."""

    file: PageFile
    name: str
    database: Database
    last_page: int
    seen: set[int] = field(default_factory=set)
    by_number: bool = False  # keys are numbers of the machine (the free list), not bytes
    free: frozenset[int] = frozenset()  # pages that no tree may have
    holes: list[Hole] = field(default_factory=list)
    counted: Counted = field(default_factory=Counted)

    def leaves(self) -> Iterator[Leaf]:
        root, depth = self.database.root, self.database.depth
        if root == NO_PAGE:
            if depth or self.database.entries:
                self.holes.append(Hole(root, b"", None, "it has records, and no pages for them"))
        elif not 0 < depth <= MAX_DEPTH:
            self.holes.append(Hole(root, b"", None, f"its depth is said to be {depth}"))
        else:
            yield from self._below(root, depth, b"", None)

    def last_key(self) -> bytes:
        """The last key of the tree, read along its last pages only; empty when it has none."""
        number, depth = self.database.root, self.database.depth
        if number == NO_PAGE or not 0 < depth <= MAX_DEPTH:
            return b""
        for _ in range(depth - 1):
            number = branch_children(self._page(number, BRANCH))[-1].page
        nodes = leaf_nodes(self._page(number, LEAF))
        return nodes[-1].key if nodes else b""

    def value(self, node: Node) -> bytes:
        """The value of a leaf node; BadPage when it is on overflow pages that cannot be read."""
        if node.flags != BIG:
            return node.value
        return self.file.overflow(page_number(node.value), node.size)

    def _below(self, number: int, depth: int, low: bytes, high: bytes | None) -> Iterator[Leaf]:
        try:
            if depth == 1:
                yield self._leaf(number, self._nodes(number, low, high), low, high)
                return
            children = self._children(number, low, high)
        except BadPage as bad:
            self.holes.append(Hole(number, low, high, str(bad)))
            return
        self.counted.branch_pages += 1
        starts = [low, *(child.key for child in children[1:])]
        for child, start, end in zip(children, starts, [*starts[1:], high], strict=True):
            yield from self._below(child.page, depth - 1, start, end)

    def _nodes(self, number: int, low: bytes, high: bytes | None) -> list[Node]:
        nodes = leaf_nodes(self._page(number, LEAF))
        if not nodes and self.database.entries:
            raise BadPage("it has no records")
        self._check_order([node.key for node in nodes], low, high)
        return nodes

    def _children(self, number: int, low: bytes, high: bytes | None) -> list[Child]:
        children = branch_children(self._page(number, BRANCH))
        if children[0].key:
            raise BadPage("its first child has a key")
        self._check_order([child.key for child in children[1:]], low, high)
        return children

    def _page(self, number: int, kind: int) -> bytes:
        if not FIRST_PAGE <= number <= self.last_page:
            raise BadPage(f"there is no page {number} in this file")
        if number in self.seen:
            raise BadPage("another part of the file has this page too")
        if number in self.free:
            raise BadPage("the free list has it")
        page = self.file.checked(number)
        if kind_of(page) != kind:
            wanted = "branch" if kind == BRANCH else "leaf"
            raise BadPage(f"it should be a {wanted} page, but its flags are {kind_of(page):#x}")
        self.seen.add(number)
        return page

    def _check_order(self, names: list[bytes], low: bytes, high: bytes | None) -> None:
        """Keys ascend and are inside the range that the page above gives them."""
        if self.by_number:
            _check_numbers(names)
            return
        if not all(map(lt, names, islice(names, 1, None))):
            raise BadPage("its keys do not ascend")
        if names and (names[0] < low or (high is not None and names[-1] >= high)):
            raise BadPage("it has keys that belong to another page")

    def _leaf(self, number: int, nodes: list[Node], low: bytes, high: bytes | None) -> Leaf:
        self.counted.leaf_pages += 1
        self.counted.entries += len(nodes)
        kept = [node for node in nodes if node.flags != BIG or self._take_overflow(node)]
        return Leaf(number, kept, low, high)

    def _take_overflow(self, node: Node) -> bool:
        """Count the overflow pages of a node; a hole for its key when they are damaged."""
        first = page_number(node.value)
        try:
            if not FIRST_PAGE <= first <= self.last_page:
                raise BadPage(f"there is no page {first} in this file")
            count = self.file.overflow_count(first, node.size)
            pages = range(first, first + count)
            if first + count > self.last_page + 1 or not self.seen.isdisjoint(pages):
                raise BadPage("another part of the file has this page too")
            if not self.free.isdisjoint(pages):
                raise BadPage("the free list has it")
        except BadPage as bad:
            self.holes.append(Hole(first, node.key, node.key + b"\0", str(bad), single=True))
            return False
        self.seen.update(pages)
        self.counted.overflow_pages += count
        return True


def _check_numbers(names: list[bytes]) -> None:
    if any(len(name) != 8 for name in names):
        raise BadPage("a key of the free list has a wrong length")
    numbers = [page_number(name) for name in names]
    if any(one >= other for one, other in pairwise(numbers)):
        raise BadPage("its keys do not ascend")


class Holes:
    """The holes of a finished walk, for many lookups."""

    def __init__(self, holes: list[Hole]) -> None:
        self._holes = sorted(holes, key=lambda hole: hole.low)
        self._lows = [hole.low for hole in self._holes]

    def __bool__(self) -> bool:
        return bool(self._holes)

    def has(self, key: bytes) -> bool:
        at = bisect_right(self._lows, key) - 1
        return at >= 0 and ((high := self._holes[at].high) is None or key < high)
