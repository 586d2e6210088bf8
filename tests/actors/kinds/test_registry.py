"""The registry publishes the next catalog, and notifies followers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.registry import Registry
from tests.actors.kinds.crontabs import GROUP, TYPE, crontabs


class Recorder:
    def __init__(self) -> None:
        self.numbered: list[str] = []
        self.seen: list[tuple[Catalog, Catalog]] = []

    async def number(self, names: Sequence[str]) -> None:
        assert not self.seen, "published before it had a number"
        self.numbered += names

    def follow(self, previous: Catalog, following: Catalog) -> None:
        self.seen.append((previous, following))


async def test_followers_get_the_catalogs_before_and_after(catalog: Catalog) -> None:
    recorder = Recorder()
    registry = Registry(catalog, recorder.number)
    registry.follow(recorder.follow)
    await registry.register(crontabs(), unserved=[crontabs("v2")])
    assert recorder.numbered == [TYPE]
    registered = registry.current
    assert registered.groups()[GROUP] == ("v1",)
    registry.retire(TYPE)
    registry.remove(TYPE)
    assert [before for before, _ in recorder.seen] == [catalog, registered, recorder.seen[1][1]]
    assert recorder.seen[-1][1] is registry.current
    with pytest.raises(KeyError):
        registry.retire(TYPE)
    assert registry.built_in is catalog


async def test_failing_follower_does_not_delay_others(catalog: Catalog) -> None:
    recorder = Recorder()
    registry = Registry(catalog, recorder.number)
    registry.follow(lambda *_: 1 / 0)  # type: ignore[arg-type, return-value]
    registry.follow(recorder.follow)
    await registry.register(crontabs())
    assert len(recorder.seen) == 1


async def test_what_a_follower_publishes_comes_after_what_it_follows(catalog: Catalog) -> None:
    recorder = Recorder()
    registry = Registry(catalog, recorder.number)

    def take_back(previous: Catalog, _: Catalog) -> None:
        if previous is catalog:
            registry.remove(TYPE)

    registry.follow(take_back)
    registry.follow(recorder.follow)
    await registry.register(crontabs())
    first, second = recorder.seen
    assert first[0] is catalog and first[1] is second[0] and second[1] is registry.current


async def test_what_cannot_get_a_number_is_not_published(catalog: Catalog) -> None:
    async def full(_: Sequence[str]) -> None:
        raise OSError("no room")

    registry = Registry(catalog, full)
    with pytest.raises(OSError, match="no room"):
        await registry.register(crontabs())
    assert registry.current is catalog
