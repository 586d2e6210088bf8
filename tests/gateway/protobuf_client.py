"""Messages and envelopes of a protobuf client, made with Google's library from the published message definitions."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MEDIA = "application/vnd.cluster.protobuf"
MAGIC = b"\x6b\x38\x73\x00"

# name: (number, type); a capital letter begins a message type, + a repeated field, = a map with string keys.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "TypeMeta": {"apiVersion": (1, "string"), "kind": (2, "string")},
    "Unknown": {
        "typeMeta": (1, "TypeMeta"),
        "raw": (2, "bytes"),
        "contentEncoding": (3, "string"),
        "contentType": (4, "string"),
    },
    "RawExtension": {"raw": (1, "bytes")},
    "WatchEvent": {"type": (1, "string"), "object": (2, "RawExtension")},
    "Time": {"seconds": (1, "int64"), "nanos": (2, "int32")},
    "ObjectMeta": {
        "name": (1, "string"),
        "generateName": (2, "string"),
        "namespace": (3, "string"),
        "uid": (5, "string"),
        "resourceVersion": (6, "string"),
        "generation": (7, "int64"),
        "creationTimestamp": (8, "Time"),
        "labels": (11, "=string"),
        "annotations": (12, "=string"),
        "finalizers": (14, "+string"),
    },
    "ListMeta": {
        "resourceVersion": (2, "string"),
        "continue": (3, "string"),
        "remainingItemCount": (4, "int64"),
    },
    "ConfigMap": {
        "metadata": (1, "ObjectMeta"),
        "data": (2, "=string"),
        "binaryData": (3, "=bytes"),
        "immutable": (4, "bool"),
    },
    "ConfigMapList": {"metadata": (1, "ListMeta"), "items": (2, "+ConfigMap")},
    "StatusCause": {"reason": (1, "string"), "message": (2, "string"), "field": (3, "string")},
    "StatusDetails": {"name": (1, "string"), "kind": (3, "string"), "causes": (4, "+StatusCause")},
    "Status": {
        "metadata": (1, "ListMeta"),
        "status": (2, "string"),
        "message": (3, "string"),
        "reason": (4, "string"),
        "details": (5, "StatusDetails"),
        "code": (6, "int32"),
    },
    "Preconditions": {"uid": (1, "string"), "resourceVersion": (2, "string")},
    "DeleteOptions": {"gracePeriodSeconds": (1, "int64"), "preconditions": (2, "Preconditions")},
    "IntOrString": {"type": (1, "int64"), "intVal": (2, "int32"), "strVal": (3, "string")},
    "ServicePort": {"name": (1, "string"), "port": (3, "int32"), "targetPort": (4, "IntOrString")},
    "ServiceSpec": {"ports": (1, "+ServicePort"), "selector": (2, "=string"), "clusterIP": (3, "string")},
    "Service": {"metadata": (1, "ObjectMeta"), "spec": (2, "ServiceSpec")},
    "PartialObjectMetadata": {"metadata": (1, "ObjectMeta")},
    "PartialObjectMetadataList": {"metadata": (1, "ListMeta"), "items": (2, "+PartialObjectMetadata")},
    "Verbs": {"items": (1, "+string")},
    "APIResource": {
        "name": (1, "string"),
        "namespaced": (2, "bool"),
        "kind": (3, "string"),
        "verbs": (4, "Verbs"),
    },
    "APIResourceList": {"groupVersion": (1, "string"), "resources": (2, "+APIResource")},
}
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
}


def _describe() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="cluster.proto", package="cluster", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, type_) in fields.items():
            _add(message, field, number, type_)
    return file


def _add(message: descriptor_pb2.DescriptorProto, name: str, number: int, type_: str) -> None:
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if type_[0] in "+=":
        field.label = _Field.LABEL_REPEATED
    if type_[0] == "=":
        entry = message.nested_type.add(name=name[0].upper() + name[1:] + "Entry")
        entry.options.map_entry = True
        _add(entry, "key", 1, "string")
        _add(entry, "value", 2, type_[1:])
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".cluster.{message.name}.{entry.name}"
    elif (bare := type_.lstrip("+")) in _SCALARS:
        field.type = _SCALARS[bare]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".cluster.{bare}"


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_describe())


def message(name: str) -> Any:
    """An empty message of this name."""
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"cluster.{name}"))()


def wrapped(api_version: str, kind: str, inside: Any) -> bytes:
    unknown = message("Unknown")
    unknown.typeMeta.apiVersion, unknown.typeMeta.kind = api_version, kind
    unknown.raw = inside.SerializeToString()
    return bytes(MAGIC + unknown.SerializeToString())


def unwrapped(data: bytes) -> Any:
    """The message in an envelope, decoded as the kind that the envelope names."""
    assert data[:4] == MAGIC
    unknown = message("Unknown")
    unknown.ParseFromString(data[4:])
    inside = message(unknown.typeMeta.kind)
    inside.ParseFromString(unknown.raw)
    return inside


def event(data: bytes) -> tuple[str, Any]:
    watch_event = message("WatchEvent")
    watch_event.ParseFromString(data)
    return watch_event.type, unwrapped(watch_event.object.raw)
