"""One object with its managedFields, updated and applied without a server: for tests of ownership and apply.

    obj = ManagedObject(THING)
    obj.apply("m1", {"spec": {"map": {"a": "1"}}})
    obj.owned("m1")  ->  {"f:spec": {"f:map": {"f:a": {}}}}

`THING` has one field of every shape.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

from rewound.actors.kinds.declaration.definition import Definition, Subresource
from rewound.actors.kinds.declaration.meta import METADATA
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    QUANTITY,
    STRING,
    STRING_MAP,
    STRINGS,
    Field,
    ListOf,
    MapOf,
    Struct,
)
from rewound.actors.kinds.validation import name_is_subdomain
from rewound.actors.patch.managed_fields.apply import Applier, apply
from rewound.actors.patch.managed_fields.field_view import FieldViews
from rewound.actors.patch.managed_fields.ownership import owned_after
from rewound.actors.runtime.coroutines import without_waiting

VERSION = "example.com/v1"

PORT = Struct(
    "example.v1.Port",
    Field("port", INT32, 1, required=True),
    Field("protocol", STRING, 2, default="TCP"),
    Field("name", STRING, 3),
)
PAIR = Struct("example.v1.Pair", Field("left", STRING, 1), Field("right", STRING, 2), atomic=True)
LOOSE = Struct("example.v1.Loose", Field("left", STRING, 1), Field("right", STRING, 2))
BOX = Struct(
    "example.v1.Box",
    Field("name", STRING, 1, required=True, always=True),
    Field("note", STRING, 2),
    Field("ports", ListOf(PORT), 3, list_type="map", list_keys=("port", "protocol")),
    Field("pair", PAIR, 4, pointer=True),
    Field("args", STRINGS, 5),
)
SPEC = Struct(
    "example.v1.ThingSpec",
    Field("text", STRING, 1),
    Field("size", QUANTITY, 2, pointer=True),
    Field("on", BOOL, 3, pointer=True),
    Field("kept", STRING, 4, default="usual"),
    Field("map", STRING_MAP, 5),
    Field("block", STRING_MAP, 6, map_type="atomic"),
    Field("loose", LOOSE, 7, pointer=True),
    Field("pair", PAIR, 8, pointer=True),
    Field("set", STRINGS, 9, list_type="set"),
    Field("plain", STRINGS, 10),
    Field("boxes", ListOf(BOX), 11, patch="merge", merge_key="name"),
    Field("deep", MapOf(LOOSE), 12),
)
STATUS = Struct("example.v1.ThingStatus", Field("phase", STRING, 1))
THING = Struct("example.v1.Thing", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3))


@cache
def define(struct: Struct, *features: str) -> Definition:
    """Cached: compiling a schema takes longer than a whole test."""
    return Definition(
        group="example.com",
        version="v1",
        kind=struct.name,
        plural="things",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=struct,
        subresources=(Subresource(name="status"),),
        features=frozenset(features),
    )


class ManagedObject:
    def __init__(self, struct: Struct = THING, annotation: str = "") -> None:
        self.annotation = annotation
        self.object: dict[str, Any] | None = None
        self._seconds = 0
        self.declare(struct)

    def declare(self, struct: Struct, *features: str) -> None:
        """Use this declaration for the object."""
        self.definition = define(struct, *features)
        self._views = FieldViews({VERSION: self.definition})

    def apply(self, manager: str, config: dict[str, Any], *, force: bool = False, through: str = "") -> bool:
        """Whether the object itself changed."""
        view = self._views(VERSION, through)
        applier = Applier(manager, self._time(), force, self.annotation)
        applied = without_waiting(apply(self._views, view, deepcopy(self.object), deepcopy(config), applier))
        made = self.object if applied.object is None else self._decoded(applied.object)
        self._store(made, applied.managed_fields)
        return applied.object is not None

    def update(self, manager: str, wanted: dict[str, Any], *, through: str = "") -> None:
        new = self._decoded({"metadata": {}, **deepcopy(wanted)})
        view = self._views(VERSION, through)
        owned = without_waiting(
            owned_after(self._views, view, deepcopy(self.object), new, manager, self._time())
        )
        self._store(new, owned)

    def change(self, manager: str, through: str = "", **parts: Any) -> None:
        """An update of some members of the spec; None removes one."""
        wanted = deepcopy(self.object) or {"metadata": {}}
        wanted["metadata"].pop("managedFields", None)
        spec = {**wanted.get("spec", {}), **parts}
        wanted["spec"] = {name: value for name, value in spec.items() if value is not None}
        self.update(manager, wanted, through=through)

    def owned(self, manager: str, operation: str = "", subresource: str = "") -> Any:
        """The fields of a manager; None without an entry."""
        for entry in self.entries:
            if (
                entry["manager"] == manager
                and operation in ("", entry["operation"])
                and subresource == entry.get("subresource", "")
            ):
                return entry["fieldsV1"]
        return None

    @property
    def entries(self) -> list[dict[str, Any]]:
        assert self.object is not None
        return self.object["metadata"].get("managedFields", [])

    @property
    def managers(self) -> list[str]:
        return [entry["manager"] for entry in self.entries]

    @property
    def spec(self) -> dict[str, Any]:
        assert self.object is not None
        return self.object.get("spec", {})

    def _decoded(self, document: dict[str, Any]) -> dict[str, Any]:
        metadata = document["metadata"]
        managed = metadata.pop("managedFields", None)
        made = self.definition.schema.decode_object(document).object
        if managed is not None:
            made["metadata"]["managedFields"] = managed
        return made

    def _store(self, made: dict[str, Any] | None, managed: list[dict[str, Any]]) -> None:
        self.object = deepcopy(made)
        assert self.object is not None
        self.object["metadata"].pop("managedFields", None)
        if managed:
            self.object["metadata"]["managedFields"] = deepcopy(managed)

    def _time(self) -> str:
        self._seconds += 1
        return f"2020-01-01T00:{self._seconds // 60:02}:{self._seconds % 60:02}Z"
