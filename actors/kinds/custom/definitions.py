"""Makes the definitions of a custom kind, one for each version, from a stored CustomResourceDefinition.

Names are those that the naming controller has accepted. The content of schemas is not read here (`LazySchema`).

`conversion_of` is where versions are converted. Objects are stored in the storage version. With strategy None only
apiVersion differs between versions, and each shows what its schema knows. Conversion by a webhook is not implemented:
requests in other versions than the storage version fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import orjson

from actors.errors import WebhookFailed
from actors.kinds.apiextensions.conditions import ESTABLISHED, NAMES_ACCEPTED, is_true
from actors.kinds.catalog import preference
from actors.kinds.custom.columns import table_of
from actors.kinds.custom.definition import CustomDefinition, LazySchema, SchemaSource
from actors.kinds.custom.scale import ScalePaths, scale_subresource
from actors.kinds.custom.strategy import CustomStrategy
from actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    Deletion,
    DiscoveryNames,
    Selection,
    Storage,
    Subresource,
)
from actors.kinds.validation.checks import name_is_subdomain
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
        self._storage_schema = self._schema(self._storage)
        self._discovery_names = DiscoveryNames(
            singular=accepted.get("singular", ""),
            short_names=tuple(accepted.get("shortNames", ())),
            categories=tuple(accepted.get("categories", ())),
            list_kind=accepted.get("listKind", ""),
        )

    def _schema(self, version: Object) -> LazySchema:
        name = version["name"]
        api_version = f"{self._spec['group']}/{name}"
        return LazySchema(SchemaSource(self._body, name, api_version, self._accepted["kind"], self._names))

    def definition(self, version: Object) -> Definition:
        spec, accepted = self._spec, self._accepted
        same = version.get("schema") == self._storage.get("schema")
        schema = self._storage_schema if version is self._storage else self._schema(version)
        subresources = version.get("subresources", {})
        scale = ScalePaths.of(subresources["scale"]) if "scale" in subresources else None
        custom = CustomStrategy(
            schema, None if same else self._storage_schema, scale, has_status="status" in subresources
        )
        terminating = "deletionTimestamp" in self._stored["metadata"]
        return CustomDefinition(
            schema,
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
            storage=self._storage_of(version, schema, same=same),
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

    def _storage_of(self, version: Object, schema: LazySchema, *, same: bool) -> Storage:
        spec, upgrade = self._spec, self._storage_schema.upgrade
        if version is self._storage:
            return Storage(upgrade=upgrade, current_since=self._since)
        stored_as = f"{self._accepted['plural']}.{spec['group']}"
        conversion: Conversion | None = None
        if spec["conversion"]["strategy"] != "None":
            conversion = _unavailable(f"{spec['group']}/{version['name']}, Kind={self._accepted['kind']}")
        elif not same:
            conversion = Conversion(_as_it_is, schema.prune)
        return Storage(stored_as=stored_as, conversion=conversion, upgrade=upgrade, current_since=self._since)


def _unavailable(target: str) -> Conversion:
    refuse = partial(_refuse, target)
    return Conversion(refuse, refuse)


def _refuse(target: str, _: Object) -> Object:
    raise WebhookFailed(
        f"conversion webhook for {target} failed: this server does not call such webhooks yet"
    )


def _as_it_is(one: Object) -> Object:
    return one


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
