"""Content negotiation: which representation a response gets, and which media type a request body has.

    Accept: application/yaml;q=0.5, application/json      -> JSON
    Accept: application/json;as=Table;g=..;v=v1, */*      -> a Table, if the response is an object or a list

Clauses are tried from the highest quality down, at equal quality the more specific one first; a clause that cannot be
served is skipped. Clients send the same few headers with every request, so the choice is cached by the header's bytes
and negotiation is one dictionary lookup.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from rewound.actors.names import Names

Media = Literal["json", "yaml", "protobuf", "cbor"]


class Representation(msgspec.Struct, frozen=True):
    media: Media
    content_type: bytes
    pretty: bool = False  # the clause has `;pretty=1`
    stream: str = ""  # "watch" if the clause has `;stream=watch`
    as_kind: str = ""  # the clause's `as`: Table, PartialObjectMetadata or PartialObjectMetadataList
    as_version: str = ""  # its `v`
    as_group: str = ""  # its `g`


JSON = Representation("json", b"application/json")

_STREAM = ";stream=watch"
_CBOR, _CBOR_SEQUENCE = "application/cbor", "application/cbor-seq"


def served_media(names: Names, *, cbor: bool = False) -> dict[str, Media]:
    """Media types of request and response bodies; the first one is the default. `cbor`: its feature gate is on."""
    served: dict[str, Media] = {
        "application/json": "json",
        "application/yaml": "yaml",
        names.media_type: "protobuf",
    }
    return {**served, _CBOR: "cbor"} if cbor else served


def watched_media(names: Names, *, cbor: bool = False) -> tuple[str, ...]:
    """Media types of watches."""
    streamed = (f"application/json{_STREAM}", names.media_type + _STREAM)
    return (*streamed, _CBOR_SEQUENCE) if cbor else streamed


def streamed_media(names: Names, *, cbor: bool = False) -> tuple[str, ...]:
    """Media types of lists and watches."""
    return (*served_media(names, cbor=cbor), *watched_media(names, cbor=cbor))


def custom_media(names: Names, *, cbor: bool) -> tuple[str, ...]:
    """Media types of custom objects, which have no protobuf messages."""
    return tuple(media for media in served_media(names, cbor=cbor) if media != names.media_type)


# Most clients send one of a few headers; a client that sends many different ones only clears the cache.
_MAX_CACHED = 256
_LONGEST_CACHED = 1024
# Clients send up to four clauses, browsers ten; this limits the cost of a hostile header.
_MAX_CLAUSES = 32
_PRETTY_AGENTS = (b"curl", b"Wget", b"Mozilla/5.0")

# What a response contains: one object, a list, watch events, the API groups (with the versions in which clients can get
# them as aggregated discovery), the resources of a group, another document (such as the version), or a Status.
ResponseKind = Literal[
    "item", "list", "watch", "groups", "groups/v2", "groups/v2beta1", "resources", "document", "other"
]

DISCOVERY_LIST = "APIGroupDiscoveryList"
_AS_KINDS: dict[ResponseKind, tuple[str, ...]] = {
    "item": ("Table", "PartialObjectMetadata"),
    "list": ("Table", "PartialObjectMetadataList"),
    "watch": ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"),
    "groups": (DISCOVERY_LIST,),
    "groups/v2": (DISCOVERY_LIST,),
    "groups/v2beta1": (DISCOVERY_LIST,),
    "resources": (),
    "document": (),
    "other": ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"),
}
# The group and versions of the kinds that `as` may name.
_META_VERSIONS: tuple[str, tuple[str, ...]] = ("meta", ("v1", "v1beta1"))
_DISCOVERY_VERSIONS: dict[ResponseKind, tuple[str, ...]] = {
    "groups": ("v2", "v2beta1"),
    "groups/v2": ("v2",),
    "groups/v2beta1": ("v2beta1",),
}

# Table cells may have any type, so there is no protobuf message for them; Kubernetes has none in CBOR either.
_NOT_ENCODED_IN: dict[str, tuple[Media, ...]] = {
    "Table": ("protobuf", "cbor"),
    DISCOVERY_LIST: ("protobuf", "yaml", "cbor"),
}

_cached_choices: dict[tuple[str, ResponseKind, bytes, bool], Representation] = {}
_cached_body_media: dict[tuple[str, bytes, bool], Media] = {}


class NotAcceptable(Exception):
    """No clause of the Accept header can be served."""

    template = "only the following media types are accepted: {}"

    def __init__(self, accepted: tuple[str, ...]) -> None:
        super().__init__(self.template.format(", ".join(accepted)))
        self.accepted = accepted


class UnknownMediaTypes(NotAcceptable):
    """No clause even names a media type that the server has."""

    template = "406: Not Acceptable\n\nAvailable representations: {}"


class UnsupportedMediaType(Exception):
    """The server does not read bodies of this Content-Type."""

    def __init__(self, accepted: tuple[str, ...]) -> None:
        super().__init__(
            "the body of the request was in an unknown format - accepted media types include: "
            + ", ".join(accepted)
        )
        self.accepted = accepted


class Clause(msgspec.Struct, frozen=True):
    """One media range of an Accept header with its parameters."""

    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]

    def covers(self, type_: str, subtype: str) -> bool:
        return self.type in (type_, "*") and self.subtype in (subtype, "*")

    @property
    def rank(self) -> tuple[float, bool, bool]:
        return -self.quality, self.type == "*", self.subtype == "*"


def negotiate(
    accept: bytes | None,
    names: Names,
    response: ResponseKind = "other",
    cbor: bool = False,
    *,
    without_protobuf: bool = False,
) -> Representation:
    """The representation of a response. `without_protobuf` is for objects that have no protobuf messages."""
    if not accept:
        return JSON
    if without_protobuf:
        return _choose_without_protobuf(accept, names, response, cbor)
    known = _cached_choices.get((names.dialect, response, accept, cbor))
    return known or _choose(accept, names, response, cbor)


def _choose_without_protobuf(
    accept: bytes, names: Names, response: ResponseKind, cbor: bool
) -> Representation:
    candidates = _candidates(accept, names, response, cbor)
    chosen = next((one for one in candidates if one.media != "protobuf" or one.as_kind), None)
    if chosen is None:
        raise NotAcceptable(custom_media(names, cbor=cbor))
    return chosen


def _choose(accept: bytes, names: Names, response: ResponseKind, cbor: bool) -> Representation:
    chosen = next(_candidates(accept, names, response, cbor), None)
    if chosen is None:
        raise _refusal(accept, names, response, cbor)
    if len(accept) <= _LONGEST_CACHED:
        if len(_cached_choices) >= _MAX_CACHED:
            _cached_choices.clear()
        _cached_choices[names.dialect, response, accept, cbor] = chosen
    return chosen


def _refusal(accept: bytes, names: Names, response: ResponseKind, cbor: bool) -> NotAcceptable:
    served = tuple(served_media(names, cbor=cbor))
    known = streamed_media(names, cbor=cbor) if response in ("list", "watch") else served
    named = (media.partition(";")[0].split("/") for media in known)
    if any(clause.covers(*media) for media in named for clause in parse_accept(accept)):
        return NotAcceptable(served)
    return UnknownMediaTypes(known)


def _candidates(accept: bytes, names: Names, response: ResponseKind, cbor: bool) -> Iterator[Representation]:
    for clause in sorted(parse_accept(accept), key=lambda clause: clause.rank):
        for content_type, media in served_media(names, cbor=cbor).items():
            if clause.covers(*content_type.split("/")):
                found = _represent(clause, media, content_type, names, response)
                if found is not None:
                    yield found


def _represent(
    clause: Clause, media: Media, content_type: str, names: Names, response: ResponseKind
) -> Representation | None:
    """The media type with the clause's parameters; None if the server does not serve that combination."""
    parameters = clause.parameters
    stream = parameters.get("stream", "")
    if stream not in ("", "watch") or (stream and media == "yaml"):
        return None
    as_kind = parameters.get("as", "")
    if as_kind or "g" in parameters or "v" in parameters:
        group_name, versions = _META_VERSIONS
        if as_kind == DISCOVERY_LIST:
            group_name, versions = "apidiscovery", _DISCOVERY_VERSIONS.get(response, ())
        served = parameters.get("g") == names.group(group_name) and parameters.get("v") in versions
        if not served or as_kind not in _AS_KINDS[response] or media in _NOT_ENCODED_IN.get(as_kind, ()):
            return None
    if response == "watch" and as_kind == "PartialObjectMetadataList":
        # An event has one object, not a list. v1.25 accepts such a watch, but ends it silently at the first event.
        as_kind = "PartialObjectMetadata"
    pretty = parameters.get("pretty") == "1"
    if response == "watch" and media in ("protobuf", "cbor"):
        content_type = _CBOR_SEQUENCE if media == "cbor" else content_type + _STREAM
    version, group = parameters.get("v", ""), parameters.get("g", "")
    return Representation(media, content_type.encode(), pretty, stream, as_kind, version, group)


def parse_accept(accept: bytes) -> list[Clause]:
    """The valid clauses, in the order sent, without those that the client rules out (q=0)."""
    clauses = []
    for part in accept.decode("latin-1").split(",", _MAX_CLAUSES)[:_MAX_CLAUSES]:
        media, *rest = part.split(";")
        type_, slash, subtype = media.strip().lower().partition("/")
        if not slash and type_ == "*":
            subtype = "*"
        parameters = dict(_parameters(rest))
        quality = _quality(parameters.pop("q", "1"))
        if type_ and subtype and quality is not None:
            clauses.append(Clause(type_.strip(), subtype.strip(), quality, parameters))
    return clauses


def _parameters(parts: list[str]) -> Iterator[tuple[str, str]]:
    for part in parts:
        name, _, value = part.partition("=")
        yield name.strip().lower(), value.strip().strip('"')


def _quality(text: str) -> float | None:
    """At most 1, or None for q=0. A value that is not a number gives the clause the lowest quality."""
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return min(quality, 1.0) if quality > 0 else None


def wants_text(accept: bytes | None) -> bool:
    """Whether the client prefers plain text."""
    clauses = sorted(parse_accept(accept), key=lambda clause: clause.rank) if accept else []
    return bool(clauses) and (clauses[0].type, clauses[0].subtype) == ("text", "plain")


def body_media(content_type: bytes | None, names: Names, *, cbor: bool) -> Media:
    """The media type of a body; JSON without a Content-Type. Parameters such as a charset are ignored."""
    if not content_type:
        return "json"
    known = _cached_body_media.get((names.dialect, content_type, cbor))
    if known is not None:
        return known
    served = served_media(names, cbor=cbor)
    media = served.get(content_type.decode("latin-1").partition(";")[0].strip().lower())
    if media is None:
        raise UnsupportedMediaType(tuple(served))
    if len(_cached_body_media) < _MAX_CACHED and len(content_type) <= _LONGEST_CACHED:
        _cached_body_media[names.dialect, content_type, cbor] = media
    return media


def wants_pretty(query_value: str | None, user_agent: bytes) -> bool:
    """Whether to indent: the query parameter `pretty`; without it, yes for tools whose output people read."""
    if query_value:
        return query_value in ("1", "t", "T", "true", "True", "TRUE")
    return user_agent.startswith(_PRETTY_AGENTS)


STRATEGIC = "application/strategic-merge-patch+json"
APPLY_CBOR = "application/apply-patch+cbor"
_PATCH_FORMATS = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    STRATEGIC: "strategic",
    "application/apply-patch+yaml": "apply",
}


def patch_formats(*, cbor: bool) -> dict[str, str]:
    """Formats of patches by media type."""
    return {**_PATCH_FORMATS, APPLY_CBOR: "apply"} if cbor else _PATCH_FORMATS


def patch_media_of(content_type: bytes) -> str:
    """The media type of a patch, without parameters."""
    return content_type.partition(b";")[0].strip().lower().decode("latin-1")
