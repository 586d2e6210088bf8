"""Makes the definitions of a custom kind, one for each version, from a stored CustomResourceDefinition.

Names are those that the naming controller has accepted. The content of schemas is not read here (`LazySchema`).

All definitions of a kind share its `Versions`, which convert objects between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import orjson

from actors.kinds.apiextensions import ESTABLISHED, NAMES_ACCEPTED, is_true
from actors.kinds.catalog import preference
from actors.kinds.custom.columns import table_of
from actors.kinds.custom.definition import CustomDefinition, LazySchema, SchemaSource
from actors.kinds.custom.scale import ScalePaths, scale_subresource
from actors.kinds.custom.strategy import CustomStrategy
from actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Selection,
    Storage,
    Subresource,
    Versions,
    VersionSchema,
)
from actors.kinds.validation import name_is_subdomain
from actors.messages import Object
from actors.names import Names

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
TERMINATING = "create not allowed while custom resource definition is terminating"


@dataclass(frozen=True, slots=True)
class DeclaredKind:
    """What a CustomResourceDefinition declares."""

    served: tuple[Definition, ...] = ()
    unserved: tuple[
        Definition, ...
    ] = ()  # versions in which objects may be stored, but that clients do not use

    @property
    def definitions(self) -> tuple[Definition, ...]:
        return (*self.served, *self.unserved)


def is_served(stored: Object) -> bool:
    return is_true(stored, NAMES_ACCEPTED) or is_true(stored, ESTABLISHED)


def definitions_of(stored: Object, body: bytes, since: int, names: Names) -> DeclaredKind:
    """`since` is the offset from which on all objects are written in the form of these schemas.

    A version that is neither served nor stored has no definition.
    """
    maker = _Maker(stored, body, since, names)
    versions = stored["spec"]["versions"]
    served = tuple(maker.definition(one) for one in versions if one["served"])
    unserved = tuple(maker.definition(one) for one in versions if one["storage"] and not one["served"])
    return DeclaredKind(served, unserved)


class _Maker:
    def __init__(self, stored: Object, body: bytes, since: int, names: Names) -> None:
        self._stored, self._body, self._since, self._names = stored, body, since, names
        self._spec = spec = stored["spec"]
        self._accepted = accepted = stored["status"]["acceptedNames"]
        self._storage = next(one for one in spec["versions"] if one["storage"])
        self._schemas = {one["name"]: self._schema(one) for one in spec["versions"]}
        self._discovery_names = DiscoveryNames(
            singular=accepted.get("singular", ""),
            short_names=tuple(accepted.get("shortNames", ())),
            categories=tuple(accepted.get("categories", ())),
            list_kind=accepted.get("listKind", ""),
        )
        self._versions = self._make_versions()

    def _schema(self, version: Object) -> LazySchema:
        name = version["name"]
        api_version = f"{self._spec['group']}/{name}"
        return LazySchema(SchemaSource(self._body, name, api_version, self._accepted["kind"], self._names))

    def definition(self, version: Object) -> Definition:
        spec, accepted = self._spec, self._accepted
        schema = self._schemas[version["name"]]
        subresources = version.get("subresources", {})
        scale = ScalePaths.of(subresources["scale"]) if "scale" in subresources else None
        custom = CustomStrategy(schema, scale, has_status="status" in subresources)
        stored_as = "" if version is self._storage else f"{accepted['plural']}.{spec['group']}"
        terminating = "deletionTimestamp" in self._stored["metadata"]
        return CustomDefinition(
            schema,
            self._schemas[self._storage["name"]],
            self._stored["metadata"]["uid"],
            group=spec["group"],
            version=version["name"],
            kind=accepted["kind"],
            plural=accepted["plural"],
            names=self._discovery_names,
            namespaced=spec["scope"] == "Namespaced",
            check_name=name_is_subdomain,
            verbs=VERBS,
            strategic_merge_patch=False,
            subresources=tuple(self._subresources(subresources, custom, scale)),
            deprecation_warning=_deprecation(spec, version),
            create_refusal=TERMINATING if terminating else "",
            storage=Storage(stored_as=stored_as, versions=self._versions),
            deletion=Deletion(only_known_finalizers=False),
            selection=Selection(own_label_conversion=True),
            table=table_of(version.get("additionalPrinterColumns", [])),
            strategy=custom.strategy(),
        )

    def _subresources(
        self, declared: Object, custom: CustomStrategy, scale: ScalePaths | None
    ) -> list[Subresource]:
        found = []
        if "status" in declared:
            found.append(
                Subresource(
                    name="status",
                    prepare=custom.prepare_status,
                    validate=custom.validate_status,
                    reset_fields=("spec",),
                )
            )
        if scale is not None:
            found.append(scale_subresource(scale, self._spec["scope"] == "Namespaced"))
        return found

    def _make_versions(self) -> Versions:
        spec, accepted = self._spec, self._accepted
        group, schemas = spec["group"], dict[str, VersionSchema]()
        first: list[Object] = []  # the first version with each schema
        for one in spec["versions"]:
            same = next((other for other in first if other.get("schema") == one.get("schema")), None)
            if same is None:
                first.append(same := one)
            lazy = self._schemas[one["name"]]
            schemas[f"{group}/{one['name']}"] = VersionSchema(
                lazy.upgrade, lazy.prune, same["name"], partial(_is_loaded, lazy)
            )
        return Versions(
            self._stored["metadata"]["name"],
            accepted["kind"],
            accepted.get("listKind") or f"{accepted['kind']}List",
            f"{group}/{self._storage['name']}",
            self._since,
            schemas,
            spec["conversion"].get("webhook") if spec["conversion"]["strategy"] == "Webhook" else None,
        )


def _is_loaded(schema: LazySchema) -> bool:
    return schema.is_loaded


def _deprecation(spec: Object, version: Object) -> str:
    """The warning of a deprecated version; by default it names the newest version that is not deprecated."""
    if not version.get("deprecated"):
        return ""
    if "deprecationWarning" in version:
        text: str = version["deprecationWarning"]
        return text
    group, kind = spec["group"], spec["names"]["kind"]
    newer = [
        one["name"]
        for one in spec["versions"]
        if one["served"]
        and not one.get("deprecated")
        and preference(one["name"]) < preference(version["name"])
    ]
    text = f"{group}/{version['name']} {kind} is deprecated"
    return f"{text}; use {group}/{min(newer, key=preference)} {kind}" if newer else text


def parsed(body: bytes) -> Object:
    """A stored CustomResourceDefinition."""
    found: Object = orjson.loads(body)
    return found
