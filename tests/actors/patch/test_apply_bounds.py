"""An apply may not make an object larger than any object may be."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.errors import TooLarge
from rewound.actors.messages import Object, Patch, WriteContext
from rewound.actors.patch.managed_fields.field_view import FieldViews
from rewound.actors.patch.transform import MAX_BYTES
from rewound.actors.resource.applying import apply_object
from rewound.actors.resource.current import Current
from rewound.actors.runtime.coroutines import without_waiting

from .managed_object import THING, VERSION, define


def applied(live: Object, spec: dict[str, Any]) -> Object:
    definition = define(THING)
    config = {"apiVersion": VERSION, "kind": "Thing", "spec": spec}
    command = Patch(VERSION, "d", "a", "apply", config, WriteContext(0, "u", "m", "u", ""))
    views = FieldViews({VERSION: definition})
    return without_waiting(apply_object(views, definition, Current(1, live), command))


def test_object_size_after_many_applies_is_bounded() -> None:
    metadata = {"name": "a", "namespace": "d", "uid": "u"}
    live = {"metadata": metadata, "spec": {"text": "x" * (MAX_BYTES - 1000)}, "status": {}}
    assert applied(live, {"map": {"k": "v"}})["spec"]["map"] == {"k": "v"}
    with pytest.raises(TooLarge, match="bytes"):
        applied(live, {"map": {"k": "v" * 1000}})
