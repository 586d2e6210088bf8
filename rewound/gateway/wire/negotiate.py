"""Content negotiation: which representation a response gets, and which media type a request body has.

    Accept: application/yaml;q=0.5, application/json      -> JSON
    Accept: application/json;as=Table;g=..;v=v1, */*      -> a Table, if the response is an object or a list

Clauses are tried from the highest quality down, at equal quality the more specific one first; a clause that cannot be
served is skipped. Clients send the same few headers with every request, so the choice is cached by the header's bytes
and negotiation is one dictionary lookup.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rewound.actors.names import Names

Media = Literal["json", "yaml", "protobuf"]


@dataclass(frozen=True, slots=True)
class Representation:
    media: Media
    content_type: bytes
    pretty: bool = False  # the clause has `;pretty=1`
    stream: str = ""  # "watch" if the clause has `;stream=watch`
    as_kind: str = ""  # the clause's `as`: Table, PartialObjectMetadata or PartialObjectMetadataList
    as_version: str = ""  # its `v`
    as_group: str = ""  # its `g`


JSON = Representation("json", b"application/json")

_STREAM = ";stream=watch"


def served_media(names: Names) -> dict[str, Media]:
    """Media types of request and response bodies; the first one is the default."""
    return {"application/json": "json", "application/yaml": "yaml", names.media_type: "protobuf"}


def streamed_media(names: Names) -> tuple[str, ...]:
    """Media types of lists and watches."""
    return (*served_media(names), f"application/json{_STREAM}", names.media_type + _STREAM)


# Most clients send one of a few headers; a client that sends many different ones only clears the cache.
_MAX_CACHED = 256
_LONGEST_CACHED = 1024
# Clients send up to four clauses, browsers ten; this limits the cost of a hostile header.
_MAX_CLAUSES = 32
_PRETTY_AGENTS = (b"curl", b"Wget", b"Mozilla/5.0")

# What a response contains: one object, a list, watch events, the API groups (with the versions in which clients can get
# them as aggregated discovery), another document (such as the version), or a Status.
ResponseKind = Literal["item", "list", "watch", "groups", "groups/v2", "groups/v2beta1", "document", "other"]

DISCOVERY_LIST = "APIGroupDiscoveryList"
_AS_KINDS: dict[ResponseKind, tuple[str, ...]] = {
    "item": ("Table", "PartialObjectMetadata"),
    "list": ("Table", "PartialObjectMetadataList"),
    "watch": ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"),
    "groups": (DISCOVERY_LIST,),
    "groups/v2": (DISCOVERY_LIST,),
    "groups/v2beta1": (DISCOVERY_LIST,),
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

# Table cells may have any type, so there is no protobuf message for them.
_NOT_ENCODED_IN: dict[str, tuple[Media, ...]] = {"Table": ("protobuf",), DISCOVERY_LIST: ("protobuf", "yaml")}

_cached_choices: dict[tuple[str, ResponseKind, bytes], Representation] = {}
_cached_body_media: dict[tuple[str, bytes], Media] = {}


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


@dataclass(frozen=True, slots=True)
class Clause:
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
    accept: bytes | None, names: Names, response: ResponseKind = "other", *, without_protobuf: bool = False
) -> Representation:
    """The representation of a response. `without_protobuf` is for objects that have no protobuf messages."""
    if not accept:
        return JSON
    if without_protobuf:
        return _choose_without_protobuf(accept, names, response)
    known = _cached_choices.get((names.dialect, response, accept))
    return known or _choose(accept, names, response)


def _choose_without_protobuf(accept: bytes, names: Names, response: ResponseKind) -> Representation:
    candidates = _candidates(accept, names, response)
    chosen = next((one for one in candidates if one.media != "protobuf" or one.as_kind), None)
    if chosen is None:
        raise NotAcceptable(tuple(media for media in served_media(names) if media != names.media_type))
    return chosen


def _choose(accept: bytes, names: Names, response: ResponseKind) -> Representation:
    chosen = next(_candidates(accept, names, response), None)
    if chosen is None:
        raise _refusal(accept, names, response)
    if len(accept) <= _LONGEST_CACHED:
        if len(_cached_choices) >= _MAX_CACHED:
            _cached_choices.clear()
        _cached_choices[names.dialect, response, accept] = chosen
    return chosen


def _refusal(accept: bytes, names: Names, response: ResponseKind) -> NotAcceptable:
    served = tuple(served_media(names))
    if any(clause.covers(*media.split("/")) for clause in parse_accept(accept) for media in served):
        return NotAcceptable(served)
    return UnknownMediaTypes(streamed_media(names) if response in ("list", "watch") else served)


def _candidates(accept: bytes, names: Names, response: ResponseKind) -> Iterator[Representation]:
    for clause in sorted(parse_accept(accept), key=lambda clause: clause.rank):
        for content_type, media in served_media(names).items():
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
    if response == "watch" and media == "protobuf":
        content_type += _STREAM
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


def body_media(content_type: bytes | None, names: Names) -> Media:
    """The media type of a body; JSON without a Content-Type. Parameters such as a charset are ignored."""
    if not content_type:
        return "json"
    known = _cached_body_media.get((names.dialect, content_type))
    if known is not None:
        return known
    served = served_media(names)
    media = served.get(content_type.decode("latin-1").partition(";")[0].strip().lower())
    if media is None:
        raise UnsupportedMediaType(tuple(served))
    if len(_cached_body_media) < _MAX_CACHED and len(content_type) <= _LONGEST_CACHED:
        _cached_body_media[names.dialect, content_type] = media
    return media


def wants_pretty(query_value: str | None, user_agent: bytes) -> bool:
    """Whether to indent: the query parameter `pretty`; without it, yes for tools whose output people read."""
    if query_value:
        return query_value in ("1", "t", "T", "true", "True", "TRUE")
    return user_agent.startswith(_PRETTY_AGENTS)


STRATEGIC = "application/strategic-merge-patch+json"
PATCH_FORMATS = {
    b"application/json-patch+json": "json",
    b"application/merge-patch+json": "merge",
    STRATEGIC.encode(): "strategic",
    b"application/apply-patch+yaml": "apply",
}
PATCH_MEDIA = tuple(media.decode() for media in PATCH_FORMATS)
