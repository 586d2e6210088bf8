"""The parameters of policies: objects of a built-in or custom kind, which bindings refer to by name or by labels.

They are read from the journal for every request, so that a write counts with the next request. Decoded ones are kept
while they are the newest version of their object, up to `KEPT_BYTES` in all. Those of custom kinds that only a webhook
converts have to be waited for (`MustWait`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import orjson

from rewound.actors.admission.policies.policy import Binding
from rewound.actors.admission.webhooks.selector import compile_selector
from rewound.actors.conversion.converter import Converter
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.runtime.time_limit import need_thread
from rewound.actors.selectors.facts import unpack_labels
from rewound.journal.log import Journal
from rewound.journal.records import Row

FindKind = Callable[[str, str], Definition | None]  # by apiVersion and kind

KEPT_BYTES: Final = 8 << 20
MANY_ROWS: Final = 500  # unpacking the labels of one takes some microseconds


class MustWait(Exception):
    """Something is missing that must be waited for; `fetch` gets it, and the step can then run again."""

    def __init__(self, fetch: Callable[[], Awaitable[None]]) -> None:
        self.fetch = fetch


class ParamProblem(Exception):
    """The parameters of a binding cannot be found; the text is that of Kubernetes."""


class _Address(NamedTuple):
    definition: Definition
    namespace: str
    name: str


class _Known(NamedTuple):
    offset: int
    size: int
    document: Object


class Params:
    def __init__(
        self,
        journal: Journal,
        find_kind: FindKind,
        converter: Converter | None,
        *,
        by_name_only: bool = False,
    ) -> None:
        """`by_name_only`: a binding names one object with its namespace, and that must exist."""
        self._by_name_only = by_name_only
        self._journal, self._find_kind, self._converter = journal, find_kind, converter
        self._known: dict[_Address, _Known] = {}
        self._bytes = 0

    def definition(self, kind: Object) -> Definition:
        """The definition of a paramKind. Raises ParamProblem if it is not served."""
        api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
        found = self._find_kind(api_version, name)
        if found is None:
            group, _, version = api_version.rpartition("/")
            raise ParamProblem(
                f"failed to find resource referenced by paramKind: '{group}/{version}, Kind={name}'"
            )
        return found

    def of(self, definition: Definition | None, binding: Binding, namespace: str) -> list[Object | None]:
        """The parameters of a binding, [None] if it has none; `namespace` is that of the request.

        Raises ParamProblem and MustWait, and NeedsThread if they are large or many.
        """
        reference = binding.param_ref
        if definition is None or reference is None:
            return [None]
        where = reference.get("namespace") or ""
        if self._by_name_only:
            rows = self._rows(definition, reference, where) if definition.namespaced == bool(where) else []
            if not rows:
                raise ParamProblem(f"{reference.get('name') or ''} not found")
            return [self._document(*rows[0])]
        if definition.namespaced:
            where = where or namespace
            if not where:
                raise ParamProblem(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        elif where:
            raise ParamProblem("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        found = [self._document(one, row) for one, row in self._rows(definition, reference, where)]
        if not found and reference.get("parameterNotFoundAction") == "Deny":
            raise ParamProblem("no params found for policy binding with `Deny` parameterNotFoundAction")
        return list(found)

    def _rows(self, definition: Definition, reference: Object, namespace: str) -> list[tuple[_Address, Row]]:
        type_id = self._journal.type_id(definition.type_name)
        name = reference.get("name")
        with self._journal.read() as view:
            if name:
                row = view.get(type_id, namespace, name)
                return [] if row is None else [(_Address(definition, namespace, name), row)]
            selector = compile_selector(reference.get("selector"))
            found: list[tuple[_Address, Row]] = []
            for count, (_, name, row) in enumerate(view.rows(type_id, namespace)):
                if count >= MANY_ROWS:
                    need_thread()
                if selector is None or selector.matches(unpack_labels(row.facts)):
                    found.append((_Address(definition, namespace, name), row))
            return found

    def _document(self, address: _Address, row: Row) -> Object:
        known = self._known.get(address)
        if known is not None and known.offset == row.offset:
            return known.document
        if len(row.body) > LARGE_BYTES:
            need_thread()
        definition = address.definition
        stored: Object = orjson.loads(row.body)
        versions = definition.storage.versions
        if versions is not None:
            version = stored.pop("apiVersion", versions.storage)
            if not versions.is_current(version, row.offset):
                if not versions.is_loaded(version):
                    need_thread()
                stored = versions.upgrade(stored, version)
            if versions.webhook is not None and version != definition.api_version:
                raise MustWait(lambda: self._convert(address, row, stored, version))
            stored = versions.convert(stored, version, definition.api_version)
        elif definition.storage.conversion is not None:
            stored = definition.storage.conversion.from_storage(stored)
        return self._keep(address, row, stored)

    async def _convert(self, address: _Address, row: Row, stored: Object, version: str) -> None:
        definition = address.definition
        versions = definition.storage.versions
        assert self._converter is not None and versions is not None
        converted = await self._converter.convert_one(versions, stored, version, definition.api_version)
        self._keep(address, row, converted)

    def _keep(self, address: _Address, row: Row, shown: Object) -> Object:
        definition = address.definition
        metadata = {**(shown.get("metadata") or {}), "resourceVersion": str(row.offset)}
        if address.namespace:
            metadata["namespace"] = address.namespace
        document = {
            "kind": definition.kind,
            "apiVersion": definition.api_version,
            **shown,
            "metadata": metadata,
        }
        before = self._known.pop(address, None)
        self._bytes += len(row.body) - (before.size if before is not None else 0)
        if self._bytes > KEPT_BYTES:
            self._known, self._bytes = {}, len(row.body)
        self._known[address] = _Known(row.offset, len(row.body), document)
        return document
