"""The scale subresource of a custom kind: replicas and selector are at paths that the definition gives.

    specReplicasPath: .spec.replicas
    statusReplicasPath: .status.replicas
    labelSelectorPath: .status.selector

The paths have no brackets or other operators, so that an update through the subresource can set the replicas.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from actors.errors import BadRequest, NoReplicas
from actors.kinds.declaration.definition import Conversion, Definition, Storage, Subresource, Table
from actors.kinds.declaration.scale import COLUMNS, SCALE
from actors.kinds.validation import FieldErrors, invalid, name_is_subdomain
from actors.messages import Object

MAX_REPLICAS: Final = 2**31 - 1
_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class WrongKindOfValue(ValueError):
    """A value at a path is of another type than it should be."""


@dataclass(frozen=True, slots=True)
class ScalePaths:
    spec: str
    status: str
    selector: str = ""

    @classmethod
    def of(cls, declared: Object) -> ScalePaths:
        selector = declared.get("labelSelectorPath", "")
        return cls(declared["specReplicasPath"], declared["statusReplicasPath"], selector)


def scale_subresource(paths: ScalePaths, namespaced: bool) -> Subresource:
    view = Definition(
        group="autoscaling",
        version="v1",
        kind="Scale",
        plural="scale",
        namespaced=namespaced,
        check_name=name_is_subdomain,
        fields=SCALE,
        storage=Storage(conversion=Conversion(to_storage=_as_sent, from_storage=partial(show_scale, paths))),
        table=Table(COLUMNS),
    )
    return Subresource(
        name="scale",
        kind="Scale",
        group="autoscaling",
        version="v1",
        view=view,
        check_read=partial(_check_replicas, paths),
        update_object=partial(set_replicas, paths),
    )


def _check_replicas(paths: ScalePaths, stored: Object) -> None:
    if _number(stored, paths.spec) is None:
        raise NoReplicas(paths.spec)


def _as_sent(document: Object) -> Object:
    return document


def show_scale(paths: ScalePaths, stored: Object) -> Object:
    metadata = stored["metadata"]
    wanted, found = _number(stored, paths.spec), _number(stored, paths.status)
    selector = _text(stored, paths.selector) if paths.selector else None
    return {
        "metadata": {part: metadata[part] for part in _SHOWN if part in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": {"replicas": found or 0, "selector": selector} if selector else {"replicas": found or 0},
    }


def set_replicas(paths: ScalePaths, sent: Object, stored: Object) -> Object:
    if "replicas" not in sent["spec"] and _number(stored, paths.spec) is None:
        raise BadRequest(f'the spec replicas field "{paths.spec}" cannot be empty')
    *around, last = _split(paths.spec)
    new = here = dict(stored)
    for name in around:
        inner = here.get(name)
        if inner is not None and not isinstance(inner, dict):
            raise BadRequest(f"value cannot be set because {paths.spec} is not a map[string]interface{{}}")
        here[name] = here = dict(inner or {})
    here[last] = sent["spec"].get("replicas", 0)
    if here[last] != _number(stored, paths.spec):
        new["metadata"] = _without_owners(new["metadata"], [f"f:{name}" for name in (*around, last)])
    return new


def _without_owners(metadata: Object, path: list[str]) -> Object:
    """Nobody owns the replicas after somebody else has scaled the object."""
    entries = []
    for entry in metadata.get("managedFields", ()):
        fields = _without_field(entry.get("fieldsV1") or {}, path)
        if fields:
            entries.append({**entry, "fieldsV1": fields})
    rest = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**rest, "managedFields": entries} if entries else rest


def _without_field(fields: Object, path: list[str]) -> Object:
    """A set of fields without one. What is owned itself and has nothing inside any more is written without a dot."""
    name, *inside = path
    if name not in fields:
        return fields
    rest = {key: value for key, value in fields.items() if key != name}
    if not inside:
        return rest
    left = _without_field(fields[name], inside)
    if left == {".": {}}:
        return {**fields, name: {}}
    return {**fields, name: left} if left else rest


def spec_rules(errors: FieldErrors, paths: ScalePaths, new: Object) -> None:
    _replicas_rules(errors, paths.spec, new)


def status_rules(errors: FieldErrors, paths: ScalePaths, new: Object) -> None:
    _replicas_rules(errors, paths.status, new)
    if paths.selector:
        try:
            _text(new, paths.selector)
        except WrongKindOfValue as error:
            errors.add(invalid(paths.selector, "", str(error)))


def _replicas_rules(errors: FieldErrors, path: str, new: Object) -> None:
    try:
        replicas = _number(new, path) or 0
    except WrongKindOfValue as error:
        errors.add(invalid(path, 0, str(error)))
        return
    if replicas < 0:
        errors.add(invalid(path, replicas, "should be a non-negative integer"))
    elif replicas > MAX_REPLICAS:
        errors.add(invalid(path, replicas, f"should be less than or equal to {MAX_REPLICAS}"))


def _split(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _number(stored: Object, path: str) -> int | None:
    value = _value(stored, path)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise _wrong(path, value, "int64")
    return value


def _text(stored: Object, path: str) -> str | None:
    value = _value(stored, path)
    if value is not None and not isinstance(value, str):
        raise _wrong(path, value, "string")
    return value


def _value(stored: Object, path: str) -> Any:
    """The value at a path, None without one; WrongKindOfValue if there is no object around it."""
    value: Any = stored
    for name in _split(path):
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong(path, value, "map[string]interface{}")
        value = value.get(name)
    return value


def _wrong(path: str, value: Any, expected: str) -> WrongKindOfValue:
    return WrongKindOfValue(
        f"{path} accessor error: {value!s:.64} is of the type {_go_type(value)}, expected {expected}"
    )


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "int64" if isinstance(value, int) else "float64"
    if isinstance(value, str):
        return "string"
    return "[]interface {}" if isinstance(value, list) else "map[string]interface {}"
