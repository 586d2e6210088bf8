"""Makes a journal from a file of `kwokctl snapshot record`: the objects of a cluster, then the changes.

The file is YAML of many documents. First come objects, then changes with the time since the recording began:

    apiVersion: action.kwok.x-k8s.io/v1alpha1
    kind: ResourcePatch
    resource: {group: apps, version: v1, resource: deployments}
    target: {name: web, namespace: shop}
    durationNanosecond: 1200000000
    method: patch                                   create (template is the object), patch (strategic) or delete
    template: {spec: {replicas: 5}}

Times inside objects are `$(time-offset-nanosecond N)`, relative to the start. The file has no versions, users or start
time: versions are counted from 1, the user is `recorded`, and the start is given, or chosen so that the last change is
as old as the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

import orjson

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import Names
from rewound.actors.patch.errors import PatchError
from rewound.actors.patch.transform import transform
from rewound.actors.store.document import decode
from rewound.actors.versions.features import release_of
from rewound.gateway.wire import yaml
from rewound.recording.record.changes import USER, Author, Change, change_of
from rewound.recording.record.definitions import Definitions
from rewound.recording.record.kinds import RecordedKind, kind_of
from rewound.recording.record.writer import RecordingWriter

Document = dict[str, Any]

ACTION: Final = "action.kwok.x-k8s.io/v1alpha1"
LARGEST: Final = 16 << 20  # bytes of one document
_SECOND: Final = 1_000_000_000  # nanoseconds
_TIME: Final = re.compile(rb"\$\(time-offset-nanosecond (-?\d{1,19})\)")
_DURATION: Final = re.compile(rb"^durationNanosecond: (\d{1,19})\s*$", re.MULTILINE)
_UNREADABLE: Final = (KeyError, TypeError, AttributeError, ValueError, PatchError)


class NoRecording(ValueError):
    """The file is not a recording of kwokctl; the text says why."""


def documents_in(stream: BinaryIO) -> Iterator[bytes]:
    """The documents of a YAML stream, one after the other. Raises NoRecording if one is too large."""
    lines: list[bytes] = []
    size = 0
    while line := stream.readline(LARGEST):
        if line.rstrip() == b"---":
            if size:
                yield b"".join(lines)
            lines, size = [], 0
            continue
        lines.append(line)
        size += len(line)
        if size > LARGEST:
            raise NoRecording(f"a document has more than {LARGEST >> 20} MiB")
    if size:
        yield b"".join(lines)


def last_duration(tail: bytes) -> int:
    """The time from the start to the last change, in nanoseconds, by the end of a file; 0 without changes."""
    return max((int(one) for one in _DURATION.findall(tail)), default=0)


class KwokImport:
    def __init__(self, writer: RecordingWriter, names: Names, start: int, *, with_secrets: bool) -> None:
        """`start` in nanoseconds since 1970; it is moved by less than a second, so that whole seconds stay whole."""
        self._writer = writer
        self._names = names
        self._start = start
        self._aligned = False
        self._with_secrets = with_secrets
        self._catalog = built_in(names, release_of(writer.journal.kubernetes))
        self._definitions = Definitions(writer, names, self._catalog)
        self._declared = {(one.group, one.version, one.plural): one for one in self._catalog.declared}
        self._kinds: dict[tuple[str, str, str], RecordedKind] = {}
        self._plurals: dict[tuple[str, str], str] = {}  # of custom kinds, by group and kind
        self.missing: Counter[str] = Counter()

    def take(self, raw: bytes) -> None:
        """Import the next document. Raises NoRecording if it cannot be read."""
        try:
            document = yaml.load(self._with_times(raw)).value
        except yaml.YamlError as error:
            raise NoRecording(f"a document is no YAML: {error}") from error
        if document is None:
            return
        if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
            raise NoRecording("a document is not an object with a kind")
        try:
            if document["kind"] == "ResourcePatch" and document.get("apiVersion") == ACTION:
                self._patch(document)
            elif document["kind"] == "List":
                for item in document.get("items") or ():
                    self._object(item)
            else:
                self._object(document)
        except _UNREADABLE as error:
            self.missing[f"{document['kind']} cannot be read ({error!r:.100})"] += 1

    def finish(self) -> None:
        """Finish the import; it is durable when this returns."""
        self._writer.flush()

    # Documents.

    def _object(self, document: Document) -> None:
        """An object that was there when the recording began."""
        group, _, version = document["apiVersion"].rpartition("/")
        kind, definition = document["kind"], self._catalog.of_kind(document["apiVersion"], document["kind"])
        plural = definition.plural if definition is not None else self._plural(group, kind)
        found = self._kind((group, version, plural), kind, "namespace" in document["metadata"])
        if kind == "CustomResourceDefinition":
            spec = document["spec"]
            self._plurals[spec["group"], spec["names"]["kind"]] = spec["names"]["plural"]
        self._add(found, document, "create", 0)

    def _patch(self, action: Document) -> None:
        resource, target, method = action["resource"], action["target"], action["method"]
        template: Any = action.get("template")
        if isinstance(template, str):
            template = orjson.loads(template)
        name, namespace = target["name"], target.get("namespace") or ""
        place = (resource.get("group") or "", resource["version"], resource["resource"])
        kind_name = template.get("kind") if isinstance(template, dict) else None
        kind = self._kind(place, kind_name or _singular(place[2]), bool(namespace))
        duration = int(action["durationNanosecond"])
        key = kind.type_name, namespace if kind.namespaced else "", name
        if method == "delete":
            self._remove(kind, key, duration)
        elif method in ("create", "update"):
            self._add(kind, template, method, duration)
        elif method != "patch":
            raise ValueError(f"method {method!r}")
        elif self._writer.written(key) is None:
            self.missing["patches are of objects that are not in the file"] += 1
        else:
            self._add(kind, self._patched(kind, key, template), method, duration)

    def _patched(self, kind: RecordedKind, key: tuple[str, str, str], patch: Any) -> Document:
        """Apply a patch, in the API version of the patch."""
        before = decode(self._writer.content(key))
        definition = kind.definition
        if definition is not None and definition.storage.conversion is not None:
            before = dict(definition.storage.conversion.from_storage(before))
        patched, _ = transform("strategic", before, patch, None if definition is None else definition.fields)
        return dict(patched)

    def _add(self, kind: RecordedKind, document: Document, verb: str, duration: int) -> None:
        time = (self._start + duration) // 1000
        document["metadata"].pop("resourceVersion", None)
        change = change_of(kind, document, time, removed=False, with_secrets=self._with_secrets)
        change.author = Author(USER, verb, "", "", time, may_apply=True)
        self._definitions.add(change)

    def _remove(self, kind: RecordedKind, key: tuple[str, str, str], duration: int) -> None:
        time = (self._start + duration) // 1000
        _, namespace, name = key
        change = Change(kind, namespace, name, "", "", True, b"", b"", time)
        change.author = Author(USER, "delete", "", "", time)
        self._writer.add(change)

    def _kind(self, place: tuple[str, str, str], kind: str, namespaced: bool) -> RecordedKind:
        known = self._kinds.get(place)
        if known is not None:
            return known
        found = kind_of(place, kind, namespaced, self._catalog, self._declared.get(place))
        if found is None:
            raise ValueError(f"{place[2]} of {place[0]}/{place[1]} are not stored")
        self._writer.journal.register_types([found.type_name])
        self._kinds[place] = found
        return found

    def _plural(self, group: str, kind: str) -> str:
        """The plural of a custom kind: that of its definition, if that came before, or else the English one."""
        if (group, kind) in self._plurals:
            return self._plurals[group, kind]
        name = kind.lower()
        if name.endswith(("s", "x", "ch")):
            return f"{name}es"
        return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"

    # Times.

    def _with_times(self, raw: bytes) -> bytes:
        """Replace the offsets in a document by times."""
        if not self._aligned and (found := _TIME.search(raw)):
            # creationTimestamp and most other times have whole seconds.
            self._aligned = True
            self._start -= (self._start + int(found[1])) % _SECOND
        return _TIME.sub(lambda found: self._time(int(found[1])), raw)

    def _time(self, offset: int) -> bytes:
        seconds, rest = divmod(self._start + offset, _SECOND)
        try:
            text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        except (ValueError, OverflowError, OSError):
            return b"null"
        return (f"{text}.{rest // 1000:06d}Z" if rest else f"{text}Z").encode()


def _singular(plural: str) -> str:
    return plural.removesuffix("s").capitalize()
