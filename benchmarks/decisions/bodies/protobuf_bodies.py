"""docs/decisions/0009-protobuf.md: objects to protobuf and back, by our writer and reader and by Google's library.

The library gets message types that are derived from the same declarations, simplified in its favour: times,
quantities and numbers with names are strings. It converts dicts with `json_format`, because our objects are dicts.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from benchmarks.decisions.measure import Effort, compare, cpu_seconds, effort_of_command_line, show
from benchmarks.decisions.samples import config_map, definition, pod
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    STRING,
    ListOf,
    MapOf,
    Struct,
    Type,
)
from rewound.gateway.wire.protobuf.reader import UnknownFieldNumbers, read_message
from rewound.gateway.wire.protobuf.writer import message_writer

_Kind = descriptor_pb2.FieldDescriptorProto
_SCALARS = {BOOL: _Kind.TYPE_BOOL, INT32: _Kind.TYPE_INT32, INT64: _Kind.TYPE_INT64}


class MessageTypes:
    """Message types of Google's library for a struct and everything in it."""

    def __init__(self, struct: Struct) -> None:
        self._names: dict[Struct, str] = {}
        self._file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="a", syntax="proto2")
        root = self._name(struct)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(self._file)
        self.root: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"a.{root}"))

    def _name(self, struct: Struct) -> str:
        if struct not in self._names:
            name = self._names[struct] = f"{struct.name}{len(self._names)}"
            message = self._file.message_type.add(name=name)
            for field in struct.fields:
                if field.number:
                    # Fields of embedded messages stand beside the others: another simplification.
                    self._add(message, field.name, field.number + 100 * field.embedded, field.type)
        return self._names[struct]

    def _add(self, message: Any, name: str, number: int, type_: Type) -> None:
        field = message.field.add(name=name, number=number, json_name=name, label=_Kind.LABEL_OPTIONAL)
        if isinstance(type_, ListOf):
            field.label, type_ = _Kind.LABEL_REPEATED, type_.item
        if isinstance(type_, MapOf):
            entry = message.nested_type.add(name=name[0].upper() + name[1:] + "Entry")
            entry.options.map_entry = True
            self._add(entry, "key", 1, STRING)
            self._add(entry, "value", 2, STRING if isinstance(type_.value, ListOf) else type_.value)
            field.label = _Kind.LABEL_REPEATED
            field.type, field.type_name = _Kind.TYPE_MESSAGE, f".a.{message.name}.{entry.name}"
        elif isinstance(type_, Struct):
            field.type, field.type_name = _Kind.TYPE_MESSAGE, f".a.{self._name(type_)}"
        else:
            field.type = _SCALARS.get(type_, _Kind.TYPE_STRING)  # type: ignore[arg-type]


def main(effort: Effort) -> None:
    for title, plural, document in (
        ("a ConfigMap of 1 kB", "configmaps", config_map()),
        ("a pod with 20 containers", "pods", pod(20)),
    ):
        _measure(title, definition(plural).fields, document, effort)
    _start()


def _measure(title: str, struct: Struct, document: Any, effort: Effort) -> None:
    del document["apiVersion"], document["kind"]
    document = _with_text_ports(document)
    write, types = message_writer(struct), MessageTypes(struct)
    ours = write(document)
    theirs = json_format.ParseDict(document, types.root()).SerializeToString()
    again = json_format.MessageToDict(types.root.FromString(theirs))
    assert orjson.dumps(again, option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        document, option=orjson.OPT_SORT_KEYS
    )
    compare(
        f"write {title}",
        {
            "ours": lambda: write(document),
            "json_format.ParseDict and SerializeToString": lambda: json_format.ParseDict(
                document, types.root()
            ).SerializeToString(),
        },
        effort,
    )
    compare(
        f"read {title}",
        {
            "ours": lambda: read_message(struct, ours, UnknownFieldNumbers()),
            "FromString and json_format.MessageToDict": lambda: json_format.MessageToDict(
                types.root.FromString(theirs)
            ),
        },
        effort,
    )


def _with_text_ports(document: Any) -> Any:
    """Ports of probes can be names; to the library's types here they are."""
    for container in document.get("spec", {}).get("containers", ()):
        for probe in ("livenessProbe", "readinessProbe"):
            container[probe]["httpGet"]["port"] = str(container[probe]["httpGet"]["port"])
    return document


def _start() -> None:
    """CPU of importing the library, in separate processes."""
    imports = "google.protobuf.json_format, google.protobuf.message_factory, google.protobuf.descriptor_pb2"
    code = f"import time; t = time.process_time(); import {imports}; print(time.process_time() - t)"
    spent = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True).stdout) for _ in range(3)
    ]
    show("import Google's library", {"CPU": min(spent) * 1000}, "ms")
    struct = definition("pods").fields
    show("make its message types of a pod", {"CPU": cpu_seconds(lambda: MessageTypes(struct)) * 1000}, "ms")


if __name__ == "__main__":
    main(effort_of_command_line())
