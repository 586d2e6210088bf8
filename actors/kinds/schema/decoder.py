"""Documents in, canonical objects out: the one place where bodies of a kind are decoded.

Callers are the gateway (bodies of writes), patches and conversions. A `Schema` belongs to one
definition and is compiled when first asked for. The object that comes out has no kind and apiVersion, holds
its fields in declared order, and is the caller's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

from actors.kinds.schema.fast import Fast
from actors.kinds.schema.fields import STRING, Field, ListOf, Struct
from actors.kinds.schema.scalars import WrongType, spoken
from actors.kinds.schema.scan import TOO_DEEP, Members, NotJson, scan
from actors.kinds.schema.walk import Walk
from actors.messages import Object


class NotDecodable(Exception):
    """The document is not one of this kind: broken, of another type, or with values no field can hold."""


class Decoded(NamedTuple):
    """A tuple, not a dataclass: one is made for every write, and this is cheaper."""

    object: Object
    problems: tuple[str, ...] = ()  # unknown and duplicate fields, in document order


# Past the constructor in Python: the write path is counted in microseconds, and this saves a third of one.
_clean: Callable[[tuple[Object, tuple[str, ...]]], Decoded] = partial(tuple.__new__, Decoded)


class Schema:
    def __init__(
        self,
        struct: Struct,
        api_version: str,
        kind: str,
        fill: Callable[[Object], None] | None = None,
        also: str = "",  # an older apiVersion that such documents may still carry
    ) -> None:
        self._struct, self._api_version, self._kind = struct, api_version, kind
        self._also = also or api_version
        self._document = Struct(struct.of, *_TYPE_META, *struct.fields)
        self._fill = fill

    @cached_property
    def _fast(self) -> Fast:
        return Fast(self._struct, self._api_version, self._kind)

    def decode_json(self, raw: bytes, *, defaults: bool = True) -> Decoded:
        if defaults and (found := self._fast.from_json(raw)) is not None:
            return _clean((self._filled(found) if self._fill else found, ()))
        return self.decode_exactly(raw, defaults=defaults)

    def decode_exactly(self, raw: bytes, *, defaults: bool = True) -> Decoded:
        """What `decode_json` does when there is something to say about the document."""
        try:
            document = scan(raw)
        except NotJson as error:
            raise NotDecodable(f"couldn't get version/kind; json parse error: {error}") from None
        return self._walk(document, (), defaults)

    def decode_object(
        self, value: object, problems: tuple[str, ...] = (), *, defaults: bool = True
    ) -> Decoded:
        """From a tree instead of text; `problems` are those its parser has found already."""
        found = self._fast.from_object(value) if defaults else None
        if found is not None:
            return Decoded(self._filled(found), problems)
        return self._walk(value, problems, defaults)

    def _walk(self, document: Any, problems: tuple[str, ...], defaults: bool) -> Decoded:
        self.check_type(document)
        walk = Walk(fill=defaults)
        try:
            found = walk.struct(self._document, document)
        except (WrongType, ValueError) as error:
            raise NotDecodable(self._not_handled(str(error))) from None
        except RecursionError:
            raise NotDecodable(self._not_handled(TOO_DEEP)) from None
        found.pop("apiVersion", None)
        found.pop("kind", None)
        self._keep_empty_lists(found, document)
        return Decoded(self._filled(found) if defaults else found, (*problems, *walk.problems))

    @cached_property
    def shown_lists(self) -> tuple[tuple[str, ...], ...]:
        """Where objects show a list even when there is nothing in it, other than inside lists and maps."""
        return tuple(_shown_lists(self._struct, ()))

    def _keep_empty_lists(self, found: Object, document: Any) -> None:
        """Stored they are null, but who says an empty list comes to own the field, unlike one who is silent."""
        for path in self.shown_lists:
            if member_at(document, path) == []:
                put_at(found, path, [])

    def _filled(self, found: Object) -> Object:
        if self._fill is not None:
            self._fill(found)
        return found

    def check_type(self, document: Any) -> None:
        """apiVersion and kind may be left out, but not be another's."""
        if not isinstance(document, (Members, dict)):
            found = "null" if document is None else spoken(document)
            raise NotDecodable(
                f"couldn't get version/kind; json parse error: cannot unmarshal {found} into a {self._kind}"
            )
        members = dict(document)
        kind, api_version = members.get("kind") or self._kind, members.get("apiVersion") or self._api_version
        if kind == self._kind and api_version in (self._api_version, self._also):
            return
        if type(kind) is not str or type(api_version) is not str:
            raise NotDecodable(
                "couldn't get version/kind; json parse error: apiVersion and kind must be strings"
            )
        if kind == self._kind:
            raise NotDecodable(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({self._api_version})"
            )
        version = api_version.rpartition("/")[2]
        raise NotDecodable(
            f'{kind} in version "{version}" cannot be handled as a {self._kind}: '
            f"this address takes objects of kind {self._kind} in {self._api_version}"
        )

    def _not_handled(self, why: str) -> str:
        version = self._api_version.rpartition("/")[2]
        return f'{self._kind} in version "{version}" cannot be handled as a {self._kind}: {why}'


def _shown_lists(struct: Struct, around: tuple[Struct, ...]) -> Iterator[tuple[str, ...]]:
    for field in struct.fields:
        if isinstance(field.type, ListOf) and field.always:
            yield (field.name,)
        elif isinstance(field.type, Struct) and field.type not in around:
            for path in _shown_lists(field.type, (*around, struct)):
                yield (field.name, *path)


def member_at(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(document, (Members, dict)):
            return None
        document = dict(document).get(name)
    return document


def put_at(found: Object, path: tuple[str, ...], value: Any) -> None:
    """Set a member of `found`; maps on the way to it are replaced by copies, not changed."""
    *around, last = path
    for name in around:
        found[name] = dict(found[name])
        found = found[name]
    found[last] = value


_TYPE_META = (Field("apiVersion", STRING, 0), Field("kind", STRING, 0))
