"""The file of rules, in YAML or JSON: rules in CEL, parameters of the built-in ones, and where alerts go.

    apiVersion: rewound.cluster.io/v1alpha1
    kind: Rules
    rules:
    - name: deployment-fights
      expression: event.kind == "Deployment" && fights(event, "5m")
      severity: critical
      message: '{{ event.user }} fights over {{ event.namespace }}/{{ event.name }}'
    builtIn:
      mass-deletes: {deletes: 200, window: 10m}
      hot-loops: {enabled: false}
    sinks:
    - webhook: {url: https://alerts.example/hook, tokenFile: /run/secrets/token}
    - alertmanager: {url: http://alertmanager:9093}

A file is checked as a whole before anything of it is used. Every error names the field and the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from rewound.actors.names import REWIND_GROUP
from rewound.client.errors import Failure
from rewound.gateway.wire import yaml
from rewound.recording.rules.built_in import BUILT_IN, SEVERITIES, WARNING, Parameter
from rewound.recording.rules.engine import Limit, Rule, Written
from rewound.recording.rules.expressions import (
    MICROS,
    BadExpression,
    Condition,
    Value,
    window_length,
)

API_VERSION: Final = f"{REWIND_GROUP}/v1alpha1"
KIND: Final = "Rules"
LARGEST_FILE: Final = 1 << 20  # bytes: that of a ConfigMap
MOST_RULES: Final = 200
_MOST_VALUES: Final = 50_000
_MOST_GROUPED: Final = 10
_LONGEST_TEXT: Final = 2_000
RESOLVE_AFTER: Final = 5 * 60 * MICROS
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?").fullmatch
_MOST_SINKS: Final = 10
# The kinds of sinks, with the fields that each has; those with a URL need it.
_SINKS: Final = {
    "stdout": ("format",),
    "webhook": ("url", "tokenFile", "caFile"),
    "alertmanager": ("url", "tokenFile", "caFile"),
    "events": ("namespace",),
}
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_PART: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)

Document = dict[str, Any]


class BadRules(Failure):
    """A file of rules is invalid; the text names the file, the field and the reason."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where alerts go. `kind` is stdout, webhook, alertmanager or events."""

    kind: str
    url: str = ""
    token_file: Path | None = None
    ca_file: Path | None = None
    form: str = "json"  # of stdout: json or text
    namespace: str = "default"  # of Events about what has no namespace


@dataclass(frozen=True, slots=True)
class RuleFile:
    rules: tuple[Rule, ...]
    sinks: tuple[SinkOptions, ...]
    off: tuple[str, ...]  # built-in rules that are switched off


def read_rules(path: Path) -> RuleFile:
    """Raises BadRules or OSError."""
    with path.open("rb") as stream:
        raw = stream.read(LARGEST_FILE + 1)
    return parse_rules(raw, str(path))


def parse_rules(raw: bytes, where: str) -> RuleFile:
    """Raises BadRules."""
    if len(raw) > LARGEST_FILE:
        raise BadRules(f"{where} has more than {LARGEST_FILE >> 20} MiB; divide it")
    try:
        loaded = yaml.load(raw, _MOST_VALUES)
    except Exception as error:
        raise BadRules(f"{where} is no YAML: {error}; correct it") from error
    try:
        return _Reader().file(loaded.value)
    except BadRules as error:
        raise BadRules(f"{where}: {error}") from None


def default_rules() -> RuleFile:
    """The built-in rules as they are without a file."""
    return _Reader().file({"apiVersion": API_VERSION, "kind": KIND})


def parameter_text(one: Parameter) -> str:
    from rewound.recording.rules.built_in import length

    if one.kind == "duration":
        return length(one.default)
    return ", ".join(one.default) if one.kind == "texts" else str(one.default)


def _sink(where: str, given: Any) -> SinkOptions:
    reader = _Reader()
    found = reader._map(where, given)
    reader._known(where, found, *_SINKS)
    if len(found) != 1:
        raise BadRules(f"{where}: must have one key, its kind: {', '.join(_SINKS)}")
    ((kind, value),) = found.items()
    where = f"{where}.{kind}"
    own = reader._map(where, {} if value is None else value)
    reader._known(where, own, *_SINKS[kind])
    texts = {name: reader._text(f"{where}.{name}", one) for name, one in own.items()}
    if "url" in _SINKS[kind]:
        url = texts.get("url", "")
        if not _is_url(url):
            raise BadRules(f"{where}.url: {url!r} is no URL; write one like https://alerts.example/hook")
    if texts.get("format", "json") not in ("json", "text"):
        raise BadRules(f"{where}.format: must be json or text, not {texts['format']!r}")
    return SinkOptions(
        kind,
        texts.get("url", ""),
        Path(texts["tokenFile"]) if "tokenFile" in texts else None,
        Path(texts["caFile"]) if "caFile" in texts else None,
        texts.get("format", "json"),
        texts.get("namespace", "default"),
    )


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").encode("idna"), parts.port
    except ValueError:  # a host or a port that cannot be
        return False
    return parts.scheme in ("http", "https") and bool(host) and url.isprintable() and " " not in url


class _Reader:
    def file(self, value: Any) -> RuleFile:
        document = self._map("the file", value)
        self._known("", document, "apiVersion", "kind", "metadata", "rules", "builtIn", "sinks")
        for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
            if document.get(name) != wanted:
                raise BadRules(f"{name}: must be {wanted}, not {document.get(name)!r}")
        built_in, off = self._built_in(document.get("builtIn"))
        written = list(self._rules(document.get("rules")))
        sinks = [
            _sink(f"sinks[{number}]", one)
            for number, one in enumerate(self._list("sinks", document.get("sinks"), _MOST_SINKS))
        ]
        return RuleFile((*built_in, *written), tuple(sinks), tuple(off))

    def _rules(self, given: Any) -> Iterator[Rule]:
        names: dict[str, int] = {}
        for number, one in enumerate(self._list("rules", given, MOST_RULES)):
            where = f"rules[{number}]"
            rule = self._rule(where, self._map(where, one))
            if rule.name in names:
                raise BadRules(
                    f"{where}.name: rules[{names[rule.name]}] is called {rule.name!r} too; rename one"
                )
            if rule.name in BUILT_IN:
                raise BadRules(f"{where}.name: a built-in rule is called {rule.name!r}; choose another name")
            names[rule.name] = number
            yield rule

    def _rule(self, where: str, given: Document) -> Rule:
        self._known(
            where,
            given,
            *("name", "expression", "severity", "message", "for", "resolveAfter", "groupBy", "rateLimit"),
        )
        name = self._text(f"{where}.name", given.get("name"))
        if not _NAME(name):
            raise BadRules(
                f"{where}.name: {name[:80]!r} must have at most 63 lower-case letters, digits, - and ."
            )
        where = f"{where} ({name})"
        try:
            condition = Condition(self._text(f"{where}.expression", given.get("expression"), 10_000))
        except BadExpression as error:
            raise BadRules(f"{where}.expression: {error}") from None
        hold = self._duration(f"{where}.for", given["for"]) if "for" in given else None
        written = Written(
            name,
            condition,
            self._severity(f"{where}.severity", given.get("severity", WARNING)),
            tuple(self._message(f"{where}.message", given.get("message"), condition)),
            tuple(self._group(f"{where}.groupBy", given.get("groupBy"), condition)),
            hold,
            condition.span,
            str(given["expression"]),
        )
        return Rule(written, self._resolve_after(where, given), self._limit(where, given))

    def _message(self, where: str, given: Any, condition: Condition) -> Iterator[str | Value]:
        if given is None:
            return
        text = self._text(where, given)
        for number, part in enumerate(_PART.split(text)):
            if number % 2 == 0:
                if "{{" in part:
                    raise BadRules(f"{where}: a {{{{ has no }}}}; write {{{{ event.name }}}}")
                if part:
                    yield part
                continue
            try:
                yield Value(part.strip(), condition.costs)
            except BadExpression as error:
                raise BadRules(f"{where}: {{{{{part}}}}}: {error}") from None

    def _group(self, where: str, given: Any, condition: Condition) -> Iterator[tuple[str, Value]]:
        seen: set[str] = set()
        for number, one in enumerate(self._list(where, given, _MOST_GROUPED)):
            text = self._text(f"{where}[{number}]", one)
            try:
                value = Value(text, condition.costs)
            except BadExpression as error:
                raise BadRules(f"{where}[{number}]: {error}") from None
            words = _LABEL.findall(text)
            label = words[-1] if words else f"key{number}"
            if label in seen:
                label = f"{label}_{number}"
            seen.add(label)
            yield label, value

    # Built-in rules.

    def _built_in(self, value: Any) -> tuple[list[Rule], list[str]]:
        given = self._map("builtIn", {} if value is None else value)
        self._known("builtIn", given, *BUILT_IN)
        found, off = [], []
        for name, of in BUILT_IN.items():
            where = f"builtIn.{name}"
            own = self._map(where, {} if given.get(name) is None else given[name])
            general = ("enabled", "severity", "resolveAfter", "rateLimit")
            self._known(where, own, *general, *of.parameters)
            if not self._bool(f"{where}.enabled", own.get("enabled", True)):
                off.append(name)
                continue
            parameters = {
                each: self._parameter(f"{where}.{each}", parameter, own[each])
                for each, parameter in of.parameters.items()
                if each in own
            }
            severity = self._severity(f"{where}.severity", own.get("severity", of.severity))
            rule = of(parameters)
            resolve_after = self._resolve_after(where, own, max(RESOLVE_AFTER, rule.given.get("window", 0)))
            found.append(Rule(rule, resolve_after, self._limit(where, own), severity))
        return found, off

    def _parameter(self, where: str, parameter: Parameter, given: Any) -> Any:
        if parameter.kind == "duration":
            return self._duration(where, given)
        if parameter.kind == "texts":
            return tuple(
                self._text(f"{where}[{at}]", one) for at, one in enumerate(self._list(where, given, 1000))
            )
        return self._number(where, given, parameter.least)

    # Values.

    def _resolve_after(self, where: str, given: Document, otherwise: int = RESOLVE_AFTER) -> int:
        if "resolveAfter" not in given:
            return otherwise
        return self._duration(f"{where}.resolveAfter", given["resolveAfter"])

    def _limit(self, where: str, given: Document) -> Limit:
        if given.get("rateLimit") is None:
            return Limit()
        where = f"{where}.rateLimit"
        limit = self._map(where, given["rateLimit"])
        self._known(where, limit, "alerts", "per")
        for name in ("alerts", "per"):
            if name not in limit:
                raise BadRules(f"{where}.{name}: is missing; write {{alerts: 10, per: 1h}}")
        return Limit(
            self._number(f"{where}.alerts", limit["alerts"], 1), self._duration(f"{where}.per", limit["per"])
        )

    def _severity(self, where: str, given: Any) -> str:
        if given not in SEVERITIES:
            raise BadRules(
                f"{where}: must be {', '.join(SEVERITIES[:-1])} or {SEVERITIES[-1]}, not {given!r}"
            )
        return str(given)

    def _duration(self, where: str, given: Any) -> int:
        try:
            return window_length("a duration", self._text(where, given))
        except BadExpression as error:
            raise BadRules(f"{where}: {str(error).removeprefix('a duration: ')}") from None

    def _number(self, where: str, given: Any, least: int) -> int:
        if given.__class__ is not int or not least <= given <= 1_000_000:
            raise BadRules(f"{where}: must be a number from {least} to 1000000, not {given!r}")
        return int(given)

    def _bool(self, where: str, given: Any) -> bool:
        if given.__class__ is not bool:
            raise BadRules(f"{where}: must be true or false, not {given!r}")
        return bool(given)

    def _text(self, where: str, given: Any, longest: int = _LONGEST_TEXT) -> str:
        if given is None:
            raise BadRules(f"{where}: is missing")
        if not isinstance(given, str) or not given:
            raise BadRules(f"{where}: must be a text, not {str(given)[:80]!r}")
        if len(given) > longest:
            raise BadRules(f"{where}: has {len(given):,} characters; at most {longest:,} are allowed")
        return given

    def _map(self, where: str, given: Any) -> Document:
        if not isinstance(given, dict):
            raise BadRules(f"{where}: must be a map, not {str(given)[:80]!r}")
        return given

    def _list(self, where: str, given: Any, most: int) -> list[Any]:
        if given is None:
            return []
        if not isinstance(given, list):
            raise BadRules(f"{where}: must be a list, not {str(given)[:80]!r}")
        if len(given) > most:
            raise BadRules(f"{where}: has {len(given)} items; at most {most} are allowed")
        return given

    def _known(self, where: str, given: Mapping[str, Any], *known: str) -> None:
        from difflib import get_close_matches

        for name in given:
            if name not in known:
                near = get_close_matches(str(name), known, n=1)
                meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                path = f"{where}.{name}" if where else str(name)
                raise BadRules(f"{path}: is not known; {meant}")
