"""What a server of another version would do with an object or a request, compared with the present version.

    rehearsal = Rehearsal(names, present, target)
    rehearsal.declare(document)                      each CustomResourceDefinition, before objects of its kind
    rehearsal.check(document)                        findings about a create of it
    rehearsal.check(document, UPDATE)                about an update
    rehearsal.check(document, STORED)                about a stored object: an update that changes nothing, a create
    rehearsal.check_request(group, version, plural)  findings about any request

Both versions decode, default, prepare and validate the object with the functions that a write uses
(`actors/resource/decide.py`), so there is no list of changes here that could be wrong. The comparison of their results
is what is reported. Admission is not asked: it depends on other objects and on webhooks.

A finding that both versions have is `already` so: the upgrade does not cause it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from rewound.actors.controllers.flow_control import STATUS_MANAGER
from rewound.actors.errors import Invalid, RequestError
from rewound.actors.flowcontrol.initial_objects import SPEC_MANAGER
from rewound.actors.golang.json import unescaped
from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import preference
from rewound.actors.kinds.custom import definitions_of
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.enablement import DEFAULT, Enablement
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.messages import Create, Object, Replace, WriteContext
from rewound.actors.names import Names
from rewound.actors.profile import default_rules
from rewound.actors.resource.current import Current
from rewound.actors.resource.decide import prepare_create, prepare_replace
from rewound.actors.rewind.difference import ABSENT, Change, difference
from rewound.actors.runtime.time_limit import run_limited
from rewound.actors.versions.features import Release
from rewound.recording.manifests import CREATE, STORED, UPDATE

# What can happen, the worst first.
REMOVED, REFUSED, PRUNED, DEFAULTED, WARNED = "removed", "refused", "pruned", "defaulted", "warned"
UNCHECKED: Final = "unchecked"  # the kind is not known
SEVERITIES: Final = (REMOVED, REFUSED, PRUNED, DEFAULTED, WARNED, UNCHECKED)
BREAKING: Final = frozenset({REMOVED, REFUSED})

# The API server writes these itself, and will write them in the versions that it has.
_OF_API_SERVER: Final = frozenset({SPEC_MANAGER, STATUS_MANAGER, "kube-apiserver"})
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_EVERYTHING: Final = Enablement(every=True)
_CONTEXT: Final = WriteContext(
    0, "rewound", "rewound", "00000000-0000-0000-0000-000000000000", "abcde"
)  # of a write that is never stored
# What a server sets itself, or sets anew with each write.
_OF_SERVER: Final = tuple(
    f"metadata.{one}"
    for one in ("managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink")
)
_SENT_WITHOUT: Final = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "deletionTimestamp")
_MOST: Final = 50  # changes of one object that are reported


@dataclass(frozen=True, slots=True)
class Finding:
    severity: str
    message: str
    field: str = ""  # the path in the object; empty: all of it
    use: str = ""  # the apiVersion to use instead of a removed one
    already: bool = False  # the present version does the same


@dataclass(slots=True)
class _Outcome:
    """What one version makes of a write."""

    form: Object | None = (
        None  # the object as it would be stored, in the version of the client; None: not decodable
    )
    errors: dict[tuple[str, str], str] = field(default_factory=dict)  # reason and field -> text
    warnings: tuple[str, ...] = ()


class _Server:
    """The definitions of one version, and the custom kinds that were declared."""

    def __init__(self, names: Names, release: Release, enabled: Enablement) -> None:
        self.version = release.version
        self._names, self._release = names, release
        self.catalog = built_in(names, release, enabled)

    def declare(self, document: Object) -> None:
        """Add the kind of a CustomResourceDefinition. Raises ValueError if this version cannot read it."""
        storage = self.catalog.storage(definition_type(self._names))
        try:
            decoded = storage.schema.decode_object(document).object
            names = decoded["spec"]["names"]
            decoded["metadata"].setdefault("uid", _CONTEXT.uid)
            decoded["status"] = {**(decoded.get("status") or {}), "acceptedNames": names}
            rules, features = default_rules(self._names.dialect), self._release.features
            made = definitions_of(decoded, unescaped(decoded), 0, self._names, rules, features)
            for one in made.definitions:
                one.load()
        except (NotDecodable, KeyError, TypeError, AttributeError, StopIteration) as error:
            raise ValueError(f"its definition cannot be read: {error}") from error
        served = set(map(id, made.served))
        self.catalog = self.catalog.adding(made.definitions, lambda one: id(one) in served)

    def is_served(self, definition: Definition | None) -> bool:
        return definition is not None and self.catalog.holds(definition)

    def instead_of(self, api_version: str, kind: str, known: Definition | None) -> str:
        """The apiVersion in which this version serves the kind; empty if it does not."""
        served = self.catalog.definitions
        found = [one for one in served if known is not None and one.type_name == known.type_name]
        found = found or [one for one in served if one.kind == kind and not one.is_custom]
        if not found:
            return ""
        group = api_version.rpartition("/")[0]
        return min(found, key=lambda one: (one.group != group, preference(one.version))).api_version

    def create(self, definition: Definition, document: Object) -> _Outcome:
        metadata = document.get("metadata")
        if isinstance(metadata, dict):
            metadata = {name: value for name, value in metadata.items() if name not in _SENT_WITHOUT}
        sent = {**document, "metadata": metadata}
        outcome = _Outcome()
        new = self._decoded(definition, sent, outcome)
        if new is None:
            return outcome
        namespace = new["metadata"].get("namespace", "default") if definition.namespaced else ""
        command = Create(definition.api_version, namespace, new, _CONTEXT)
        self._prepare(outcome, definition, new, None, lambda: prepare_create(definition, command, new))
        return outcome

    def update(self, definition: Definition, stored: Object) -> _Outcome:
        """What becomes of a stored object when a client sends it as it is."""
        outcome = _Outcome()
        old = self._decoded(definition, stored, outcome)
        new = self._decoded(definition, stored, outcome)
        if old is None or new is None:
            return outcome
        for one in (old, new):
            one["metadata"].pop("resourceVersion", None)
        metadata = old["metadata"]
        metadata.setdefault("uid", _CONTEXT.uid)
        metadata.setdefault("creationTimestamp", None)
        name = metadata.get("name", "")
        command = Replace(definition.api_version, metadata.get("namespace", ""), name, new, _CONTEXT)
        self._prepare(
            outcome,
            definition,
            new,
            old,
            lambda: prepare_replace(definition, Current(0, old), command, new, unversioned=True)[0],
        )
        return outcome

    def _decoded(self, definition: Definition, document: Object, outcome: _Outcome) -> Object | None:
        """The object in storage form, with defaults; None, with an error in the outcome, if it is malformed."""
        try:
            new = definition.schema.decode_object(document).object
        except NotDecodable as error:
            outcome.errors["decoding", ""] = str(error)
            return None
        if definition.storage.conversion is not None:
            new = definition.storage.conversion.to_storage(new)
        new.setdefault("metadata", {})
        return new

    def _prepare(
        self,
        outcome: _Outcome,
        definition: Definition,
        new: Object,
        old: Object | None,
        prepare: Callable[[], Object],
    ) -> None:
        """Prepare and validate; what `prepare` changes it changes in `new`, also if it refuses the result."""
        definition.schema.null_empty_lists(new)
        try:
            run_limited(prepare)
            if definition.strategy.canonicalize is not None:
                definition.strategy.canonicalize(new)
            if definition.strategy.warnings is not None:
                outcome.warnings = tuple(definition.strategy.warnings(new, old))
        except Invalid as error:
            outcome.errors.update({(one.reason, one.field): str(one) for one in error.causes})
        except RequestError as error:
            outcome.errors["refused", ""] = str(error)
        conversion = definition.storage.conversion
        outcome.form = new if conversion is None else conversion.from_storage(new)


class Rehearsal:
    def __init__(
        self, names: Names, present: Release, target: Release, enabled: Enablement = DEFAULT
    ) -> None:
        """`enabled`: what the server of the target version serves besides its defaults."""
        self.names = names
        # Objects of every group version exist: the present server may serve more than the default.
        self._present = _Server(names, present, _EVERYTHING)
        self._target = _Server(names, target, enabled)
        self._built_in_groups = {
            one.group for server in (self._present, self._target) for one in server.catalog.declared
        }
        self._undeclared: dict[
            tuple[str, str], str
        ] = {}  # group and kind -> why its definition cannot be used

    @property
    def definition_type(self) -> str:
        return definition_type(self.names)

    def is_definition(self, document: Object) -> bool:
        """Whether a document is a CustomResourceDefinition."""
        group = str(document.get("apiVersion")).rpartition("/")[0]
        return (
            document.get("kind") == "CustomResourceDefinition"
            and group == self.definition_type.partition(".")[2]
        )

    def declare(self, document: Object) -> None:
        """Add the kind of a CustomResourceDefinition; if it is malformed, objects of the kind are not checked."""
        try:
            for server in (self._present, self._target):
                server.declare(document)
        except ValueError as error:
            try:
                spec = document["spec"]
                self._undeclared[spec["group"], spec["names"]["kind"]] = str(error)
            except (KeyError, TypeError):
                pass  # what is wrong with the definition is reported when it is checked

    def check(self, document: Object, how: str = CREATE) -> list[Finding]:
        """Findings about an object with apiVersion and kind, which a client sends or the present server has."""
        api_version, kind = str(document.get("apiVersion")), str(document.get("kind"))
        known = self._present.catalog.of_kind(api_version, kind)
        definition = self._target.catalog.of_kind(api_version, kind)
        if known is None and definition is None and not self._is_of_kubernetes(api_version):
            return [self._unchecked(api_version, kind)]
        findings = list(self._served(api_version, kind, known, definition, stored=how == STORED))
        is_gone = any(one.severity == REMOVED and not one.use for one in findings)
        if definition is not None and definition.is_stored and not is_gone:
            findings += self._compared(document, known, definition, how)
        if how == STORED and not is_gone:
            findings += self._other_versions(document, kind)
        return findings

    def check_request(self, group: str, version: str, plural: str, subresource: str = "") -> list[Finding]:
        """Findings about any request for a resource: whether it is served, and with which warning."""
        api_version = f"{group}/{version}" if group else version
        known = self._present.catalog.find(group, version, plural)
        definition = self._target.catalog.find(group, version, plural)
        if definition is None and known is not None:
            definition = self._target.catalog.of_kind(api_version, known.kind)  # declared, but not served
        if known is None and definition is None and not self._is_of_kubernetes(api_version):
            return [self._unchecked(api_version, plural)]
        declared = definition or known
        kind = plural if declared is None else declared.kind
        if definition is not None and known is not None and subresource:
            missing = definition.subresource(subresource) is None
            if missing and known.subresource(subresource) is not None:
                text = f"{plural}/{subresource} of {api_version} is not served"
                return [Finding(REMOVED, text)]
        return list(self._served(api_version, kind, known, definition, stored=False))

    def _is_of_kubernetes(self, api_version: str) -> bool:
        """Whether only Kubernetes itself can have the group: the groups of custom kinds have a dot."""
        group = api_version.rpartition("/")[0]
        return group in self._built_in_groups or "." not in group

    def _unchecked(self, api_version: str, kind: str) -> Finding:
        group = api_version.rpartition("/")[0]
        why = self._undeclared.get((group, kind)) or (
            f"{api_version} is no group version of Kubernetes; add its CustomResourceDefinition to what is checked"
        )
        return Finding(UNCHECKED, why, already=True)

    def _served(
        self,
        api_version: str,
        kind: str,
        known: Definition | None,
        definition: Definition | None,
        *,
        stored: bool,
    ) -> Iterator[Finding]:
        """Whether the target serves the group version, and with which warning."""
        if self._target.is_served(definition):
            assert definition is not None
            warning = definition.deprecation_warning
            if warning and not stored:  # which version a list used says nothing about other clients
                yield Finding(
                    WARNED, warning, already=known is not None and known.deprecation_warning == warning
                )
            return
        use = self._target.instead_of(api_version, kind, definition or known)
        if stored and use:
            return  # the object is served in another version
        yield self._removed(api_version, kind, known, definition, use)

    def _removed(
        self, api_version: str, kind: str, known: Definition | None, definition: Definition | None, use: str
    ) -> Finding:
        text = f"{api_version} {kind} is not served"
        if definition is not None and not definition.until:
            text += " unless --runtime-config or a feature gate enables it"
        elif definition is not None:
            text += f"; {definition.until} was the last version with it"
        text += f"; use {use}" if use else ""
        return Finding(REMOVED, text, use=use, already=not self._present.is_served(known))

    def _other_versions(self, document: Object, kind: str) -> Iterator[Finding]:
        """Group versions that clients have written the object in, by its managed fields and kubectl's annotation."""
        seen: dict[str, list[str]] = {}
        for entry in managed_fields(document):
            if entry.get("manager") not in _OF_API_SERVER:
                seen.setdefault(str(entry.get("apiVersion")), []).append(str(entry.get("manager", "")))
        if version := _last_applied(document):
            seen.setdefault(version, []).append("kubectl apply")
        for api_version, managers in seen.items():
            known = self._present.catalog.of_kind(api_version, kind)
            there = self._target.catalog.of_kind(api_version, kind)
            if not self._present.is_served(known):
                continue  # nobody can use it any more
            by = f"written by {' and '.join(dict.fromkeys(filter(None, managers))) or 'a client'}: "
            for one in self._served(api_version, kind, known, there, stored=False):
                yield Finding(one.severity, by + one.message, "", one.use, one.already)

    def _compared(
        self, document: Object, known: Definition | None, definition: Definition, how: str
    ) -> Iterator[Finding]:
        """What the target makes of the object, where the present version makes something else of it."""
        found: set[str] = set()  # fields with an error
        if how != CREATE:
            after = self._target.update(definition, document)
            before = None if known is None else self._present.update(known, document)
            what = "an update that changes nothing: " if how == STORED else ""
            for one in _refusals(before, after, what):
                found.add(one.field)
                yield one
            yield from self._changes(document, before, after, how)
            if how == UPDATE:
                yield from _warnings(before, after)
        if how != UPDATE:
            after = self._target.create(definition, document)
            before = None if known is None else self._present.create(known, document)
            what = "a create of the same object: " if how == STORED else ""
            yield from (one for one in _refusals(before, after, what) if one.field not in found)
            if how == CREATE:
                yield from self._changes(document, before, after, how)
            yield from _warnings(before, after)

    def _changes(
        self, document: Object, before: _Outcome | None, after: _Outcome, how: str
    ) -> Iterator[Finding]:
        """Fields that are dropped, or stored with another value."""
        if after.form is None:
            return
        ignored = {*_OF_SERVER, "apiVersion", "kind", *(("status",) if how == CREATE else ())}
        shown = _masked if document.get("kind") == "Secret" else _shown
        dropped = _dropped(document, after.form, ignored)
        present = before.form if before is not None else None
        dropped_before = _dropped(document, present, ignored) if present is not None else {}
        for path, value in dropped.items():
            text = f"{path} is dropped ({shown(value)})"
            already = _is_below(path, dropped_before) or any(
                _is_below(one, (path,)) for one in dropped_before
            )
            yield Finding(PRUNED, text, path, already=already)
        if present is None:
            return
        for change in difference(present, after.form, ignored, most=_MOST):
            is_empty = all(one is ABSENT or one is None for one in (change.before, change.after))
            if not is_empty and not _is_below(change.path, dropped):
                text = self._described(change, shown, kept=_is_below(change.path, dropped_before))
                yield Finding(DEFAULTED, text, change.path)

    def _described(self, change: Change, shown: Callable[[Any], str], *, kept: bool) -> str:
        version = self._present.version
        if change.after is ABSENT:
            return f"{change.path} is not set; {version} sets {shown(change.before)}"
        if change.before is not ABSENT:
            return f"{change.path} becomes {shown(change.after)}; {version} has {shown(change.before)}"
        if kept:
            return f"{change.path} takes effect ({shown(change.after)}); {version} drops it"
        return f"{change.path} is set to {shown(change.after)}"


def _refusals(before: _Outcome | None, after: _Outcome, what: str) -> Iterator[Finding]:
    for (reason, path), text in after.errors.items():
        already = before is not None and (reason, path) in before.errors
        yield Finding(REFUSED, what + text, path, already=already)


def _warnings(before: _Outcome | None, after: _Outcome) -> Iterator[Finding]:
    for text in dict.fromkeys(after.warnings):
        yield Finding(WARNED, text, already=before is not None and text in before.warnings)


def _dropped(document: Object, form: Object, ignored: set[str]) -> dict[str, Any]:
    """The fields of a document that are not in the stored form."""
    changes = difference(document, form, ignored)
    return {
        one.path: one.before
        for one in changes
        if one.after is ABSENT and one.before not in (None, "", [], {}, 0, False)
    }


def _is_below(path: str, above: Iterable[str]) -> bool:
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in above)


def _shown(value: Any) -> str:
    text = unescaped(value).decode()
    return text if len(text) <= 80 else text[:79] + "…"


def _masked(_: Any) -> str:
    return "***"


def managed_fields(document: Object) -> list[Object]:
    """The entries of managedFields; none if the object is malformed."""
    metadata = document.get("metadata")
    entries = metadata.get("managedFields") if isinstance(metadata, dict) else ()
    return [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []


def _last_applied(document: Object) -> str:
    """The apiVersion of the manifest that `kubectl apply` keeps in an annotation; empty if there is none."""
    try:
        return str(orjson.loads(document["metadata"]["annotations"][LAST_APPLIED])["apiVersion"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
