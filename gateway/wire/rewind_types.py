"""Types of the group of the past, declared like kinds, so that OpenAPI is derived from the declarations."""

from __future__ import annotations

from actors.kinds.schema.fields import ANY_JSON, BOOL, INT64, STRING, STRINGS, Field, ListOf, Struct
from gateway.wire.meta_types import LIST_META

_EVENT = (
    Field("version", STRING, 0),
    Field("time", STRING, 0),
    Field("user", STRING, 0),
    Field("verb", STRING, 0),
    Field("fieldManager", STRING, 0),
    Field("reason", STRING, 0),
)
_OBJECT = Struct(
    "rewound.v1.ObjectName",
    Field("apiVersion", STRING, 0),
    Field("kind", STRING, 0),
    Field("namespace", STRING, 0),
    Field("name", STRING, 0),
)
_OPERATION = Struct(
    "rewound.v1.PatchOperation",
    Field("op", STRING, 0),
    Field("path", STRING, 0),
    Field("value", ANY_JSON, 0),
)
_VERSION = Struct(
    "rewound.v1.ObjectVersion",
    *_EVENT,
    Field("uid", STRING, 0),
    Field("deleted", BOOL, 0),
    Field("compacted", BOOL, 0),
    Field("patch", ListOf(_OPERATION), 0),
)
_END = Struct("rewound.v1.DifferenceEnd", Field("version", STRING, 0), Field("objectVersion", STRING, 0))
_FIELD = Struct(
    "rewound.v1.FieldOwner",
    Field("field", STRING, 0),
    Field("path", STRING, 0),
    Field("value", ANY_JSON, 0),
    *_EVENT,
    Field("compacted", BOOL, 0),
)
# The response to `history` is a History, or with `diff` a Difference: its fields are here too.
HISTORY = Struct(
    "rewound.v1.History",
    Field("metadata", LIST_META, 0),
    Field("object", _OBJECT, 0),
    Field("items", ListOf(_VERSION), 0),
    Field("from", _END, 0),
    Field("to", _END, 0),
    Field("patch", ListOf(_OPERATION), 0),
)
BLAME = Struct(
    "rewound.v1.Blame",
    Field("object", _OBJECT, 0),
    Field("version", STRING, 0),
    Field("time", STRING, 0),
    Field("fields", ListOf(_FIELD), 0),
)
ROLLBACK = Struct("rewound.v1.Rollback", Field("to", STRING, 0, required=True), Field("fields", STRINGS, 0))
UNDELETE = Struct("rewound.v1.Undelete", Field("uid", STRING, 0))
RESTORED = Struct("rewound.v1.RestoredObject")  # an object of any kind

# The timeline.
_MOMENT = Struct("rewound.v1.JournalEnd", Field("version", STRING, 0), Field("time", INT64, 0))
_ENDS = (Field("oldest", _MOMENT, 0), Field("newest", _MOMENT, 0), Field("now", INT64, 0))
_ROW = Struct(
    "rewound.v1.TimelineRow",
    Field("type", STRING, 0),
    Field("namespace", STRING, 0),
    Field("total", INT64, 0),
    Field("cells", ListOf(INT64), 0),
)
TIMELINE = Struct(
    "rewound.v1.Timeline",
    *_ENDS,
    Field("start", INT64, 0),
    Field("width", INT64, 0),
    Field("buckets", INT64, 0),
    Field("rows", ListOf(_ROW), 0),
    Field("rowsLeftOut", INT64, 0),
    Field("searchedFrom", STRING, 0),
)
_JOURNAL_EVENT = Struct(
    "rewound.v1.TimelineEvent",
    *_EVENT,
    Field("micros", INT64, 0),
    Field("change", STRING, 0),
    Field("type", STRING, 0),
    Field("namespace", STRING, 0),
    Field("name", STRING, 0),
    Field("uid", STRING, 0),
    Field("object", ANY_JSON, 0),
)
TIMELINE_EVENTS = Struct(
    "rewound.v1.TimelineEvents",
    Field("metadata", LIST_META, 0),
    *_ENDS,
    Field("upto", STRING, 0),
    Field("items", ListOf(_JOURNAL_EVENT), 0),
)
_TYPE = Struct(
    "rewound.v1.TimelineType",
    Field("type", STRING, 0),
    Field("apiVersion", STRING, 0),
    Field("resource", STRING, 0),
    Field("kind", STRING, 0),
    Field("namespaced", BOOL, 0),
)
TIMELINE_TYPES = Struct(
    "rewound.v1.TimelineTypes",
    Field("user", STRING, 0),
    Field("metaGroup", STRING, 0),
    Field("replays", BOOL, 0),
    Field("items", ListOf(_TYPE), 0),
)
