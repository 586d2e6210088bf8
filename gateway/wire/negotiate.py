"""Which representation an answer takes, and which one a body has.

    Accept: application/yaml;q=0.5, application/json      -> JSON
    Accept: application/json;as=Table;g=..;v=v1, */*      -> a table, where the answer is an object or a list

Clauses are tried from the highest quality down, at equal quality the more specific one first; one that asks
for what is not served is passed over. The same few headers come with every request, so that the choice is
remembered by their bytes and negotiation is one dictionary lookup.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from actors.names import Names

Media = Literal["json", "yaml", "protobuf"]


@dataclass(frozen=True, slots=True)
class Representation:
    media: Media
    content_type: bytes
    pretty: bool = False  # asked for by the clause itself: `;pretty=1`
    stream: str = ""  # "watch" where the clause says so
    form: str = ""  # another form of the object: Table, PartialObjectMetadata or its list
    form_version: str = ""
    form_group: str = ""


JSON = Representation("json", b"application/json")

_STREAM = ";stream=watch"


def served_media(names: Names) -> dict[str, Media]:
    """What bodies may be in, and answers too; the first where a client takes anything."""
    return {"application/json": "json", "application/yaml": "yaml", names.media_type: "protobuf"}


def streamed_media(names: Names) -> tuple[str, ...]:
    """What lists may be in, which may also be watches."""
    return (*served_media(names), f"application/json{_STREAM}", names.media_type + _STREAM)


# A handful of clients send a handful of headers; whoever sends more only makes the memory start anew.
_REMEMBERED = 256
_LONGEST_REMEMBERED = 1024
# Clients send up to four clauses, browsers ten; parsing must not grow with a hostile header.
_CLAUSES = 32
_PRETTY_AGENTS = (b"curl", b"Wget", b"Mozilla/5.0")

# What an answer is: one object, a list, a stream of events, the groups there are, a document about something
# else, or a status.
Shape = Literal["item", "list", "watch", "groups", "document", "other"]

DISCOVERY_LIST = "APIGroupDiscoveryList"
_FORMS: dict[Shape, tuple[str, ...]] = {
    "item": ("Table", "PartialObjectMetadata"),
    "list": ("Table", "PartialObjectMetadataList"),
    "watch": ("Table", "PartialObjectMetadata"),
    "groups": (DISCOVERY_LIST,),
    "document": (),
    "other": ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"),
}
_USUAL_HOME = ("meta", ("v1", "v1beta1"))
_HOMES = {DISCOVERY_LIST: ("apidiscovery", ("v2", "v2beta1"))}  # group and versions of a form

# Cells of a table are of any type, which protobuf has no message for.
_NOT_IN: dict[str, tuple[Media, ...]] = {"Table": ("protobuf",), DISCOVERY_LIST: ("protobuf", "yaml")}

_chosen: dict[tuple[str, Shape, bytes], Representation] = {}
_bodies: dict[tuple[str, bytes], Media] = {}


class NotAcceptable(Exception):
    """No clause of the Accept header can be served."""

    told = "only the following media types are accepted: {}"

    def __init__(self, accepted: tuple[str, ...]) -> None:
        super().__init__(self.told.format(", ".join(accepted)))
        self.accepted = accepted


class UnknownMediaTypes(NotAcceptable):
    """No clause even names a media type that is served."""

    told = "406: Not Acceptable\n\nAvailable representations: {}"


class UnsupportedMediaType(Exception):
    """The Content-Type is none that is read."""

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


def negotiate(accept: bytes | None, names: Names, shape: Shape = "other") -> Representation:
    if not accept:
        return JSON
    known = _chosen.get((names.dialect, shape, accept))
    return known or _choose(accept, names, shape)


def _choose(accept: bytes, names: Names, shape: Shape) -> Representation:
    chosen = next(_candidates(accept, names, shape), None)
    if chosen is None:
        raise _refusal(accept, names, shape)
    if len(accept) <= _LONGEST_REMEMBERED:
        if len(_chosen) >= _REMEMBERED:
            _chosen.clear()
        _chosen[names.dialect, shape, accept] = chosen
    return chosen


def _refusal(accept: bytes, names: Names, shape: Shape) -> NotAcceptable:
    served = tuple(served_media(names))
    if any(clause.covers(*media.split("/")) for clause in parse_accept(accept) for media in served):
        return NotAcceptable(served)
    return UnknownMediaTypes(streamed_media(names) if shape in ("list", "watch") else served)


def _candidates(accept: bytes, names: Names, shape: Shape) -> Iterator[Representation]:
    for clause in sorted(parse_accept(accept), key=lambda clause: clause.rank):
        for content_type, media in served_media(names).items():
            if clause.covers(*content_type.split("/")):
                found = _represent(clause, media, content_type, names, shape)
                if found is not None:
                    yield found


def _represent(
    clause: Clause, media: Media, content_type: str, names: Names, shape: Shape
) -> Representation | None:
    """What the clause's parameters make of a media type; None where that is not served."""
    wanted = clause.parameters
    stream = wanted.get("stream", "")
    if stream not in ("", "watch") or (stream and media == "yaml"):
        return None
    form = wanted.get("as", "")
    if form or "g" in wanted or "v" in wanted:
        group, versions = _HOMES.get(form, _USUAL_HOME)
        served = wanted.get("g") == names.group(group) and wanted.get("v") in versions
        if not served or form not in _FORMS[shape] or media in _NOT_IN.get(form, ()):
            return None
    pretty = wanted.get("pretty") == "1"
    if shape == "watch" and media == "protobuf":
        content_type += _STREAM
    version, home = wanted.get("v", ""), wanted.get("g", "")
    return Representation(media, content_type.encode(), pretty, stream, form, version, home)


def parse_accept(accept: bytes) -> list[Clause]:
    """The readable clauses, in the order sent; one that the client rules out (q=0) is left out."""
    clauses = []
    for part in accept.decode("latin-1").split(",", _CLAUSES)[:_CLAUSES]:
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
    """Between 0 and 1. A word that is no number leaves the clause acceptable, after all others."""
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return min(quality, 1.0) if quality > 0 else None


def body_media(content_type: bytes | None, names: Names) -> Media:
    """JSON where nothing is said; parameters such as a charset make no difference."""
    if not content_type:
        return "json"
    known = _bodies.get((names.dialect, content_type))
    if known is not None:
        return known
    served = served_media(names)
    media = served.get(content_type.decode("latin-1").partition(";")[0].strip().lower())
    if media is None:
        raise UnsupportedMediaType(tuple(served))
    if len(_bodies) < _REMEMBERED and len(content_type) <= _LONGEST_REMEMBERED:
        _bodies[names.dialect, content_type] = media
    return media


def wants_pretty(query_value: str | None, user_agent: bytes) -> bool:
    """`pretty` as the query says; where it says nothing, for the tools that people read from."""
    if query_value:
        return query_value in ("1", "t", "T", "true", "True", "TRUE")
    return user_agent.startswith(_PRETTY_AGENTS)
