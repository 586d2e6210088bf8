"""Short ways to check and use schemas of custom resources in tests."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from rewound.actors.kinds.schema.decoder import Decoded
from rewound.actors.kinds.structural.compile import Compiled, compile_schema
from rewound.actors.kinds.structural.definition_checks import check_schema
from rewound.actors.kinds.validation import collect
from rewound.actors.names import NAMES
from rewound.actors.runtime.time_limit import NeedsThread, run_limited

API_VERSION, KIND = "stable.example.io/v1", "Thing"
TEXT, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def list_of(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def errors_of(schema: dict[str, Any], dialect: str = "cluster", *, has_status: bool = False) -> list[str]:
    """The errors for which a definition with this schema is refused."""
    names = NAMES[dialect]
    work = partial(collect, check_schema, "s", schema, names=names, has_status=has_status)
    try:
        found = work()
    except NeedsThread:
        found = run_limited(work, seconds=60)
    return [f"{one.field}: {one.message}" for one in found]


def compiled(schema: dict[str, Any], dialect: str = "cluster") -> Compiled:
    assert errors_of(schema, dialect) == []
    return compile_schema(schema, api_version=API_VERSION, kind=KIND, names=NAMES[dialect])


def decode(kind: Compiled, **members: Any) -> Decoded:
    return decode_text(kind, orjson.dumps(members)[1:-1])


def decode_text(kind: Compiled, members: bytes) -> Decoded:
    """`members` of the document besides its type and metadata, as text."""
    head = orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "a"}})
    return kind.schema.decode_json(head[:-1] + (b"," if members else b"") + members + b"}")


def problems(kind: Compiled, new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """The errors that validation finds in an object."""
    kind.load()
    found = collect(lambda errors: kind.validate(errors, new, old))
    return [f"{one.field}: {one.message}" for one in found]
