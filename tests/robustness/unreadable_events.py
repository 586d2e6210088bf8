"""A data folder with events that cannot be read: contents that no server writes, and bodies that are no object."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from rewound.journal import Event, Journal, records
from rewound.journal.keys import pack_offset
from tests.gateway.api import Api, config_map, served
from tests.journal.test_damage import flipped
from tests.journal.test_too_large_contents import claiming, put, stored

CONTENTS: Final = {"too large": claiming(64 << 20), "no frame": b"no frame", "empty": b""}
BODIES: Final = {
    "no JSON": b'{"metadata":',
    "nothing": b"",
    "null": b"null",
    "list": b"[]",
    "text": b'"poison"',
    "metadata text": b'{"metadata":"poison"}',
    "no UTF-8": b'{"metadata":{"name":"\xff\xfe"}}',
    "deep": b'{"metadata":' * 5000 + b"1" + b"}" * 5000,
}
FORMS: Final = (*CONTENTS, *BODIES)
DAMAGED: Final = "damaged"  # the checksum is wrong
VERSIONS: Final = ("blue", "red", "green")  # of each object; the second one cannot be read


def name_of(form: str) -> str:
    return form.lower().replace(" ", "-")


def spoil(journal: Journal, event: Event, form: str) -> None:
    key = pack_offset(event.offset)
    if form == DAMAGED:
        put(journal, event, flipped(records.encode_event(key, event)))
    elif form in CONTENTS:
        put(journal, event, stored(event, CONTENTS[form]))
    else:
        put(journal, event, records.encode_event(key, event._replace(body=BODIES[form])))


@asynccontextmanager
async def spoiled(folder: Path, **settings: Any) -> AsyncIterator[Api]:
    """A server with an object for each form, and one whose versions can all be read."""
    async with served(folder, **settings) as api:
        for color in VERSIONS:
            for name in ("sound", *map(name_of, FORMS)):
                write = api.create if color == VERSIONS[0] else api.replace
                await write("configmaps", config_map(name, color=color))
    spoil_second_versions(folder / "data" / "journal")
    async with served(folder, **settings) as api:
        yield api


def spoil_second_versions(path: Path) -> None:
    dialect = Journal.open(path, readonly=True).dialect
    journal = Journal.open(path, dialect=dialect)
    with journal.read() as view:
        type_id = view.types()["configmaps"]
        found = {form: list(view.history(type_id, "default", name_of(form)))[1] for form in FORMS}
    for form, event in found.items():
        spoil(journal, event, form)
    journal.close()
