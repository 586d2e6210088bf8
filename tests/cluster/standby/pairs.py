"""A leader and its standby, both in the event loop of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from rewound.gateway.settings.settings import StandbySettings
from rewound.journal import Journal
from tests.gateway.api import ADMIN, Api, served


def url_of(api: Api) -> str:
    assert api.addresses.insecure is not None
    host, port = api.addresses.insecure
    return f"http://{host}:{port}"


def following(folder: Path, url: str, token: str = ADMIN, **more: Any) -> StandbySettings:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "leader.token"
    file.write_text(token)
    return StandbySettings(follow=url, follow_token_file=file, **more)


@asynccontextmanager
async def standby_of(leader: Api | str, folder: Path, **more: Any) -> AsyncIterator[Api]:
    url = leader if isinstance(leader, str) else url_of(leader)
    async with served(folder, standby=following(folder, url), **more) as api:
        yield api


def floor_of(api: Api) -> int:
    """The retention floor of a running server."""
    assert api.store is not None
    with api.store.journal.read() as view:
        return view.floor


async def has_everything(standby: Api, leader: Api) -> None:
    """Wait until the standby has everything that the leader has."""
    await reaches(standby, int(await leader.head()))


async def reaches(standby: Api, offset: int) -> None:
    with trio.fail_after(30):
        while int(await standby.head()) < offset:
            await trio.sleep(0.005)


def stored_bytes(journal: Path) -> list[tuple[bytes, bytes]]:
    """The events of a journal that no server has open, as LMDB has them."""
    opened = Journal.open(journal, readonly=True)
    try:
        with opened.read() as view:
            return [(bytes(key), bytes(value)) for key, value in view.txn.cursor(view.databases.events)]
    finally:
        opened.close()
