"""ConversionReview: the request that a webhook gets, and the objects in its response, checked as v1.25 checks them.

Documents are stored objects as bytes, with their apiVersion as the first member. A webhook may change everything but
the identity of an object; of its metadata only labels and annotations are taken over. The result has the fields that
the schema of the wanted version declares.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from actors.errors import ConversionFailed, TooLarge
from actors.go_json import dumps
from actors.kinds.declaration.definition import Versions
from actors.kinds.declaration.meta import annotation_rules, label_rules
from actors.kinds.validation import FieldErrors, collect
from actors.large_work import LARGE_BYTES
from actors.messages import Object
from actors.patch.bounds import MAX_BYTES
from actors.store.document import api_version_of, in_usual_order, kind_prefix, typed
from actors.value_count import MAX_VALUES, check_values

SUCCESS: Final = "Success"
MORE_VALUES: Final = 4  # times as many as were sent
# As Go encodes a response that is not there yet.
_NO_RESPONSE: Final = b'"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}'
_IDENTITY: Final = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))
_TYPE_AND_METADATA: Final = frozenset(("apiVersion", "kind", "metadata"))
_LONGEST: Final = 256  # of what errors quote of a response


class _Wrong(Exception):
    """What is wrong with a response, or with one object of it."""


class Batch(NamedTuple):
    """Objects that one call converts."""

    versions: Versions
    documents: Sequence[bytes]
    target: str  # apiVersion
    listed: bool  # they are a part of a list, which is what errors name

    @property
    def shown(self) -> str:
        """What is converted, as errors name it."""
        if self.listed:
            return f"{self.target}, Kind={self.versions.list_kind}"
        return f"{api_version_of(self.documents[0])}, Kind={self.versions.kind}"

    def check_versions(self) -> None:
        """ConversionFailed for an object in a version that the definition does not have."""
        for index, document in enumerate(self.documents):
            version = api_version_of(document)
            if version in self.versions:
                continue
            if self.listed:
                raise ConversionFailed(
                    f"request to convert CR list failed, list index {index} has invalid group/version: {version}"
                )
            raise ConversionFailed(f"request to convert CR from an invalid group/version: {version}")

    def review(self, api_version: str, uid: str) -> bytes:
        prefix = kind_prefix(self.versions.kind)
        objects = b",".join([typed(prefix, document) for document in self.documents])
        request = b'"request":{"uid":"%b","desiredAPIVersion":"%b","objects":[%b]},' % (
            uid.encode(),
            self.target.encode(),
            objects,
        )
        return b'{"kind":"ConversionReview","apiVersion":"%b",%b%b' % (
            api_version.encode(),
            request,
            _NO_RESPONSE,
        )

    def results(self, api_version: str, uid: str, raw: bytes) -> list[bytes]:
        """The converted objects, in the order of the documents. ConversionFailed."""
        try:
            if len(raw) > LARGE_BYTES:
                self._check_values(raw)
            converted = _converted_objects(api_version, uid, raw)
        except _Wrong as wrong:
            raise ConversionFailed(f"conversion webhook for {self.shown} failed: {wrong}") from None
        if len(converted) != len(self.documents):
            raise ConversionFailed(
                f"conversion webhook for {self.shown} returned {len(converted)} objects, "
                f"expected {len(self.documents)}"
            )
        return [self._result(index, one) for index, one in enumerate(converted)]

    def _result(self, index: int, converted: Any) -> bytes:
        before: Object = orjson.loads(self.documents[index])["metadata"]
        single = "object at index 0"  # where errors of a single object are, in the words of v1.25
        try:
            self._check_type(converted)
            single = "object"
            _check_identity(before, converted.get("metadata"))
            single = "metadata"
            metadata = _restored(before, converted)
        except _Wrong as wrong:
            raise self._invalid(index, single, wrong) from None
        members = {name: part for name, part in converted.items() if name not in _TYPE_AND_METADATA}
        pruned = self.versions.prune({"metadata": metadata, **members}, self.target)
        result = dumps({"apiVersion": self.target, **pruned})
        if len(result) > MAX_BYTES:
            raise self._invalid(index, "object at index 0", _Wrong(f"it has more than {MAX_BYTES} bytes"))
        return result

    def _invalid(self, index: int, single: str, wrong: _Wrong) -> ConversionFailed:
        where = single
        if self.listed:
            is_metadata = single == "metadata"
            where = (
                f"metadata in object at index {index}"
                if is_metadata
                else f"converted object at index {index}"
            )
        return ConversionFailed(f"conversion webhook for {self.shown} returned invalid {where}: {wrong}")

    def _check_values(self, raw: bytes) -> None:
        """_Wrong for a response with many times more values than were sent: parsing them takes long in one call."""
        sent = sum(check_values(document, sys.maxsize) for document in self.documents)
        try:
            check_values(raw, MORE_VALUES * sent + MAX_VALUES)
        except TooLarge:
            raise _Wrong("the response has too many values") from None

    def _check_type(self, converted: Any) -> None:
        if not isinstance(converted, dict):
            raise _Wrong(f"json: cannot unmarshal {_json_type(converted)} into an object")
        kind, version = converted.get("kind"), converted.get("apiVersion")
        if not kind or not isinstance(kind, str):
            raise _Wrong(f"Object 'Kind' is missing in '{_quoted(converted)}'")
        if version != self.target:
            raise _Wrong(f"invalid groupVersion (expected {self.target}, received {_text(version)})")
        if kind != self.versions.kind:
            raise _Wrong(f"invalid kind (expected {self.versions.kind}, received {_text(kind)})")


def _converted_objects(api_version: str, uid: str, raw: bytes) -> list[Any]:
    try:
        review = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _Wrong(f"the response is not JSON: {str(error)[:_LONGEST]}") from None
    if not isinstance(review, dict):
        raise _Wrong("the response is not a JSON object")
    exact = api_version.endswith("/v1")  # earlier webhooks may leave out type and uid
    got = review.get("apiVersion"), review.get("kind")
    if exact and got != (api_version, "ConversionReview"):
        raise _Wrong(
            f"expected webhook response of {api_version}, Kind=ConversionReview, "
            f"got {_text(got[0])}, Kind={_text(got[1])}"
        )
    response = review.get("response")
    if response is None:
        raise _Wrong("no response provided")
    if not isinstance(response, dict):
        raise _Wrong("response must be an object")
    if exact and response.get("uid") != uid:
        raise _Wrong(f'expected response.uid="{uid}", got "{_text(response.get("uid"))}"')
    result = response.get("result")
    status = result.get("status") if isinstance(result, dict) else None
    if status != SUCCESS:
        message = result.get("message") if isinstance(result, dict) else None
        if message and isinstance(message, str):
            raise _Wrong(message[: 16 * _LONGEST])
        raise _Wrong(f"response.result.status was '{_text(status)}', not '{SUCCESS}'")
    converted = response.get("convertedObjects")
    if not isinstance(converted, list | None):
        raise _Wrong("response.convertedObjects must be a list")
    return converted or []


def _check_identity(before: Object, after: Any) -> None:
    if not isinstance(after, dict):
        after = {}
    for name, shown in _IDENTITY:
        was, became = before.get(name, ""), after.get(name, "")
        if was != became:
            raise _Wrong(f"must have the same {shown}: {was} != {_text(became)}")


def _restored(before: Object, converted: Object) -> Object:
    """The metadata from before the conversion, with the labels and annotations from after it."""
    if "metadata" not in converted:
        raise _Wrong("missing metadata in converted object")
    after = converted["metadata"]
    if not isinstance(after, dict):
        raise _Wrong(f"invalid metadata of type {_go_type(after)} in converted object")
    found = {name: part for name, part in before.items() if name not in ("labels", "annotations")}
    for name in ("labels", "annotations"):
        values = after.get(name)
        if values is None:
            continue
        _check_values(name, before.get(name), values)
        found[name] = values
    return in_usual_order(found)


def _check_values(name: str, before: Object | None, after: Any) -> None:
    if not isinstance(after, dict):
        raise _Wrong(f"invalid metadata.{name} of type {_go_type(after)} in converted object")
    for key, value in after.items():
        if not isinstance(value, str):
            raise _Wrong(
                f"metadata.{name}[{key[:_LONGEST]}] must be a string, but is {_go_type(value)} in converted object"
            )
    if after == (before or {}):
        return
    # v1.25 names the field of annotations in the singular.
    errors = collect(_value_rules, name, after)
    if errors:
        texts = [f"{one.field}: {one.message}" for one in errors]
        raise _Wrong(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"[: 16 * _LONGEST])


def _value_rules(errors: FieldErrors, name: str, values: Object) -> None:
    if name == "labels":
        label_rules(errors, values, "metadata.labels")
    else:
        annotation_rules(errors, values, "metadata.annotation")


def _text(value: Any) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _quoted(value: Object) -> str:
    return orjson.dumps(value).decode()[:_LONGEST]


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "int64" if isinstance(value, int) else "float64"
    if isinstance(value, str):
        return "string"
    if value is None:
        return "<nil>"
    return "[]interface {}" if isinstance(value, list) else "map[string]interface {}"


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "null" if value is None else "array"
