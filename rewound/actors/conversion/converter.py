"""Calls the conversion webhooks of custom kinds: one ConversionReview for all objects of a batch.

A call is made once and takes 30 seconds at most. Its response may be four times as long as the request plus 1 MiB; a
worker thread parses and checks a long one. Only the tasks that need the result wait for it.

Documents are stored objects as bytes, with their apiVersion as the first member. A webhook may change everything but
the identity of an object; of its metadata only changes of labels and annotations count. The result has the fields
that the schema of the target version declares.

Metrics, named as in Kubernetes, have the duration of calls by definition, versions and success. Clients create
definitions: beyond MAX_SERIES they are counted together.
"""

from __future__ import annotations

import base64
import binascii
import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol

import orjson
import trio

from rewound.actors.access.remote.address import ServiceAddress, WebhookAddress
from rewound.actors.access.remote.calls import WebhookError
from rewound.actors.errors import ConversionFailed, Overloaded, TooLarge
from rewound.actors.golang.json import dumps, unescaped
from rewound.actors.kinds.declaration.definition import Versions
from rewound.actors.kinds.declaration.meta import annotation_rules, label_rules
from rewound.actors.kinds.validation import FieldErrors, collect
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.patch.transform import MAX_BYTES
from rewound.actors.runtime.large_work import LARGE_BYTES, MAX_VALUES, check_values
from rewound.actors.runtime.outside import outside
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.write_context import new_uid
from rewound.actors.store.document import api_version_of, in_usual_order, kind_prefix, typed

SECONDS: Final = 30
REVIEW_VERSIONS: Final = ("v1", "v1beta1")
LARGEST_RESPONSE: Final = 1 << 20
# As many as a mailbox holds: each waiting write takes some kilobytes.
MAX_CALLS: Final = 4096


class Clients(Protocol):
    async def send(self, webhook: WebhookAddress, body: bytes, largest: int) -> bytes:
        """Return the body of the response. Raises WebhookError if there is none."""


class NoClients:
    """Takes the place of `Clients` on a server that must not call webhooks."""

    async def send(self, webhook: WebhookAddress, body: bytes, largest: int) -> bytes:
        raise WebhookError("this server replays a journal and calls no webhooks of the recorded cluster")


class Converter:
    def __init__(self, names: Names, clients: Clients, limit: int = MAX_CALLS) -> None:
        self._limit = limit
        self._running = 0  # conversions that writes wait for
        self._group = names.group("apiextensions")
        self._clients = clients
        self.timings = ConversionTimings()
        # One thread: more would only compete for the interpreter lock.
        self._thread = trio.CapacityLimiter(1)

    async def convert_one(self, versions: Versions, one: Object, source: str, target: str) -> Object:
        """Convert an object of a write to another version.

        Raises ConversionFailed if the webhook fails, and Overloaded if too many writes wait for conversions.
        """
        if source == target:
            return one
        if self._running >= self._limit:
            raise Overloaded
        self._running += 1
        try:
            [raw] = await self.convert(versions, [dumps({"apiVersion": source, **one})], target)
        finally:
            self._running -= 1
        converted: Object = orjson.loads(raw)
        del converted["apiVersion"]
        return converted

    async def convert(
        self, versions: Versions, documents: list[bytes], target: str, *, listed: bool = False
    ) -> list[bytes]:
        """Convert objects to another version; the result has the same order. Raises ConversionFailed if the webhook
        fails.

        `documents` are stored objects in other versions than `target`. `listed`: they are part of a list.
        """
        batch = Batch(versions, documents, target, listed)
        batch.check_versions()
        began = perf_counter()
        succeeded = False
        try:
            converted = await self._call(batch)
            succeeded = True
        finally:
            versions_used = api_version_of(documents[0]), target
            self.timings.called(versions.name, *versions_used, succeeded, perf_counter() - began)
        return converted

    async def _call(self, batch: Batch) -> list[bytes]:
        webhook = batch.versions.webhook
        assert webhook is not None
        version = next((one for one in webhook["conversionReviewVersions"] if one in REVIEW_VERSIONS), None)
        if version is None:
            raise ConversionFailed("no supported conversion review versions")
        api_version, uid = f"{self._group}/{version}", new_uid()
        body = batch.review(api_version, uid)
        try:
            address = address_of(webhook["clientConfig"])
            raw = await outside(self._clients.send(address, body, 4 * len(body) + LARGEST_RESPONSE))
        except WebhookError as error:
            raise ConversionFailed(f"conversion webhook for {batch.description} failed: {error}") from None
        if len(raw) + len(body) <= LARGE_BYTES:
            return batch.results(api_version, uid, raw)
        return await run_in_thread(batch.results, api_version, uid, raw, limiter=self._thread)


def address_of(config: Object) -> WebhookAddress:
    """Return the address of a webhook from its clientConfig."""
    try:
        bundle = base64.b64decode(config.get("caBundle") or "").strip()
    except (binascii.Error, ValueError):
        bundle = b""
    service = config.get("service")
    if service is None:
        return WebhookAddress(config.get("url", ""), None, bundle, SECONDS)
    address = ServiceAddress(service["namespace"], service["name"], service.get("port", 443))
    return WebhookAddress(service.get("path", ""), address, bundle, SECONDS)


SUCCESS: Final = "Success"
MORE_VALUES: Final = 4  # times as many values as were sent
# Go encodes a response that is not set like this.
_NO_RESPONSE: Final = b'"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}'
_IDENTITY: Final = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))
_TYPE_AND_METADATA: Final = frozenset(("apiVersion", "kind", "metadata"))
_LONGEST: Final = 256  # characters of a response that errors quote


class _InvalidResponse(Exception):
    """What is wrong with a response, or with one of its objects."""


class Batch(NamedTuple):
    """The objects of one call."""

    versions: Versions
    documents: Sequence[bytes]
    target: str  # apiVersion
    listed: bool  # they are part of a list, which is what errors name

    @property
    def description(self) -> str:
        """What is converted, as errors name it."""
        if self.listed:
            return f"{self.target}, Kind={self.versions.list_kind}"
        return f"{api_version_of(self.documents[0])}, Kind={self.versions.kind}"

    def check_versions(self) -> None:
        """Raise ConversionFailed for an object in a version that the definition does not have."""
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
        """Return the converted objects in the order of the documents. Raises ConversionFailed for an invalid
        response.
        """
        try:
            if len(raw) > LARGE_BYTES:
                self._check_values(raw)
            converted = _converted_objects(api_version, uid, raw)
        except _InvalidResponse as wrong:
            raise ConversionFailed(f"conversion webhook for {self.description} failed: {wrong}") from None
        if len(converted) != len(self.documents):
            raise ConversionFailed(
                f"conversion webhook for {self.description} returned {len(converted)} objects, "
                f"expected {len(self.documents)}"
            )
        return [self._result(index, one) for index, one in enumerate(converted)]

    def _result(self, index: int, converted: Any) -> bytes:
        before: Object = orjson.loads(self.documents[index])["metadata"]
        single = "object at index 0"  # the place in errors about a single object, in the words of v1.25
        try:
            self._check_type(converted)
            single = "object"
            _check_identity(before, converted.get("metadata"))
            single = "metadata"
            metadata = _restored(before, converted)
        except _InvalidResponse as wrong:
            raise self._invalid(index, single, wrong) from None
        members = {name: part for name, part in converted.items() if name not in _TYPE_AND_METADATA}
        pruned = self.versions.prune({"metadata": metadata, **members}, self.target)
        result = dumps({"apiVersion": self.target, **pruned})
        if len(result) > MAX_BYTES:
            raise self._invalid(
                index, "object at index 0", _InvalidResponse(f"it has more than {MAX_BYTES} bytes")
            )
        return result

    def _invalid(self, index: int, single: str, wrong: _InvalidResponse) -> ConversionFailed:
        where = single
        if self.listed:
            is_metadata = single == "metadata"
            where = (
                f"metadata in object at index {index}"
                if is_metadata
                else f"converted object at index {index}"
            )
        return ConversionFailed(
            f"conversion webhook for {self.description} returned invalid {where}: {wrong}"
        )

    def _check_values(self, raw: bytes) -> None:
        """Raise _InvalidResponse for many times more values than were sent: parsing them is one long call."""
        sent = sum(check_values(document, sys.maxsize) for document in self.documents)
        try:
            check_values(raw, MORE_VALUES * sent + MAX_VALUES)
        except TooLarge:
            raise _InvalidResponse("the response has too many values") from None

    def _check_type(self, converted: Any) -> None:
        if not isinstance(converted, dict):
            raise _InvalidResponse(f"json: cannot unmarshal {_json_type(converted)} into an object")
        kind, version = converted.get("kind"), converted.get("apiVersion")
        if not kind or not isinstance(kind, str):
            raise _InvalidResponse(f"Object 'Kind' is missing in '{_quoted(converted)}'")
        if version != self.target:
            raise _InvalidResponse(
                f"invalid groupVersion (expected {self.target}, received {_text(version)})"
            )
        if kind != self.versions.kind:
            raise _InvalidResponse(f"invalid kind (expected {self.versions.kind}, received {_text(kind)})")


def _converted_objects(api_version: str, uid: str, raw: bytes) -> list[Any]:
    try:
        review = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _InvalidResponse(f"the response is not JSON: {str(error)[:_LONGEST]}") from None
    if not isinstance(review, dict):
        raise _InvalidResponse("the response is not a JSON object")
    exact = api_version.endswith("/v1")  # older webhooks may leave out type and uid
    got = review.get("apiVersion"), review.get("kind")
    if exact and got != (api_version, "ConversionReview"):
        raise _InvalidResponse(
            f"expected webhook response of {api_version}, Kind=ConversionReview, "
            f"got {_text(got[0])}, Kind={_text(got[1])}"
        )
    response = review.get("response")
    if response is None:
        raise _InvalidResponse("no response provided")
    if not isinstance(response, dict):
        raise _InvalidResponse("response must be an object")
    if exact and response.get("uid") != uid:
        raise _InvalidResponse(f'expected response.uid="{uid}", got "{_text(response.get("uid"))}"')
    result = response.get("result")
    status = result.get("status") if isinstance(result, dict) else None
    if status != SUCCESS:
        message = result.get("message") if isinstance(result, dict) else None
        if message and isinstance(message, str):
            raise _InvalidResponse(message[: 16 * _LONGEST])
        raise _InvalidResponse(f"response.result.status was '{_text(status)}', not '{SUCCESS}'")
    converted = response.get("convertedObjects")
    if not isinstance(converted, list | None):
        raise _InvalidResponse("response.convertedObjects must be a list")
    return converted or []


def _check_identity(before: Object, after: Any) -> None:
    if not isinstance(after, dict):
        after = {}
    for name, shown in _IDENTITY:
        was, became = before.get(name, ""), after.get(name, "")
        if was != became:
            raise _InvalidResponse(f"must have the same {shown}: {was} != {_text(became)}")


def _restored(before: Object, converted: Object) -> Object:
    """Return the metadata from before the conversion, with the labels and annotations from after it."""
    if "metadata" not in converted:
        raise _InvalidResponse("missing metadata in converted object")
    after = converted["metadata"]
    if not isinstance(after, dict):
        raise _InvalidResponse(f"invalid metadata of type {_go_type(after)} in converted object")
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
        raise _InvalidResponse(f"invalid metadata.{name} of type {_go_type(after)} in converted object")
    for key, value in after.items():
        if not isinstance(value, str):
            raise _InvalidResponse(
                f"metadata.{name}[{key[:_LONGEST]}] must be a string, but is {_go_type(value)} in converted object"
            )
    if after == (before or {}):
        return
    # v1.25 names the field of annotations in the singular.
    errors = collect(_value_rules, name, after)
    if errors:
        texts = [f"{one.field}: {one.message}" for one in errors]
        raise _InvalidResponse(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"[: 16 * _LONGEST])


def _value_rules(errors: FieldErrors, name: str, values: Object) -> None:
    if name == "labels":
        label_rules(errors, values, "metadata.labels")
    else:
        annotation_rules(errors, values, "metadata.annotation")


def _text(value: Any) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _quoted(value: Object) -> str:
    return unescaped(value).decode()[:_LONGEST]


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


# Seconds, as in v1.25.
BOUNDS: Final = tuple(0.001 * 2**power for power in range(15))
MAX_SERIES: Final = 1000
OTHER: Final = "other"

Labels = tuple[str, ...]


class ConversionTimings:
    def __init__(self) -> None:
        self._series: dict[Labels, tuple[float, list[int]]] = {}

    def called(self, name: str, source: str, target: str, succeeded: bool, seconds: float) -> None:
        """Count a call. `source` and `target` are apiVersions."""
        result = str(succeeded).lower()
        labels = name, source.rpartition("/")[2], target.rpartition("/")[2], result
        if labels not in self._series and len(self._series) >= MAX_SERIES:
            labels = OTHER, OTHER, OTHER, result
        total, counts = self._series.get(labels, (0.0, [0] * (len(BOUNDS) + 1)))
        counts[bisect_left(BOUNDS, seconds)] += 1
        self._series[labels] = total + seconds, counts

    def durations(self) -> Mapping[Labels, tuple[float, tuple[int, ...]]]:
        """Return, by labels, the seconds in total and the number of calls in each bucket."""
        return {labels: (total, tuple(counts)) for labels, (total, counts) in self._series.items()}
