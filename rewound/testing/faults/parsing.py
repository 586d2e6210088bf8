"""Parses fault rules from JSON or YAML, strictly: every mistake is reported with the path of its field.

{"seed": 7, "rules": [{"match": {"verbs": ["update"]}, "fault": {"conflict": {}}, "first": 2}]}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from rewound.gateway.wire import yaml
from rewound.testing.faults.rules import (
    NAMES,
    VERBS,
    CutWatch,
    Delay,
    ErrorResponse,
    ExpiredVersion,
    Fault,
    FaultRule,
    Faults,
    LagWatch,
    LostReply,
    Match,
    RepeatEvents,
    ResourcePattern,
    StaleRead,
    When,
    WriteConflict,
    possible_verbs,
)

MAX_RULES: Final = 100
MAX_DELAY: Final = 600.0  # seconds
MAX_COUNT: Final = 1_000_000_000
MAX_REPEATED: Final = 1000  # events; finding the first of them holds the event loop
MAX_LAG: Final = 1000  # events that a watch may lag: the versions of each are in memory
CODES: Final = (429, 500, 502, 503, 504)
ENDS: Final = ("clean", "reset", "truncated")
_MATCH: Final = ("user", "userAgent", "verbs", "resources", "namespaces", "names")
_WATCH: Final = frozenset({"watch"})
_WHEN: Final = ("probability", "every", "first", "after")
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
T = TypeVar("T")


class FaultsError(ValueError):
    """The rules cannot be used; `problems` name the fields and say what each must be."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


def read_faults(path: Path) -> Faults:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise FaultsError([f"cannot read {path}: {error.strerror}"]) from error
    return parse_faults(raw)


def parse_faults(raw: bytes) -> Faults:
    try:
        loaded = yaml.load(raw)
    except yaml.YamlError as error:
        raise FaultsError([f"is neither JSON nor YAML: {error}"]) from None
    if loaded.problems:
        raise FaultsError(list(loaded.problems))
    return faults_of(loaded.value)


def faults_of(document: Any) -> Faults:
    """The rules of a parsed document. Raises FaultsError."""
    parser = _Parser()
    faults = parser.faults(document)
    if parser.problems:
        raise FaultsError(parser.problems)
    return faults


def match_of_watches(document: Any) -> Match:
    """The match of a hold: that of a rule, without verbs. Raises FaultsError."""
    parser = _Parser()
    match = parser.watches("match", document)
    if parser.problems:
        raise FaultsError(parser.problems)
    return match


class _Parser:
    """Collects the problems of a whole document; until they are reported, a wrong value is replaced by a default."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def faults(self, document: Any) -> Faults:
        given = self._mapping("", document, ("seed", "rules"))
        if not isinstance(document, dict):
            return Faults(())
        seed = self._integer("seed", given.get("seed"), 0, least=-MAX_COUNT)
        listed = given.get("rules")
        if not isinstance(listed, list):
            self._report("rules", "must be a list of rules")
            return Faults(())
        if len(listed) > MAX_RULES:
            self._report("rules", f"has {len(listed)} rules; {MAX_RULES} are the most")
            return Faults(())
        rules = [self._rule(f"rules[{number}]", str(number), one) for number, one in enumerate(listed)]
        names = [rule.name for rule in rules]
        for number, name in enumerate(names):
            if name in names[:number]:
                self._report(f"rules[{number}].name", f"{name!r} is the name of another rule too")
        return Faults(rules, seed, listed)

    def _rule(self, path: str, default_name: str, value: Any) -> FaultRule:
        given = self._mapping(path, value, ("name", "match", "fault", *_WHEN))
        name = given.get("name", default_name)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self._report(
                f"{path}.name", "must be at most 63 letters, digits, '.', '_' and '-', like conflicts-1"
            )
            name = default_name
        if "fault" not in given:
            self._report(f"{path}.fault", f"is missing; write one of {', '.join(NAMES.values())}")
            return FaultRule(name, Match(), ExpiredVersion())
        fault = self._fault(f"{path}.fault", given["fault"])
        match = self._match(f"{path}.match", given.get("match", {}), possible_verbs(fault))
        return FaultRule(name, match, fault, self._when(path, given))

    def _when(self, path: str, given: Mapping[str, Any]) -> When:
        first = self._integer(f"{path}.first", given.get("first"), 0, least=1)
        probability = self._number(f"{path}.probability", given.get("probability"), 1.0)
        if probability > 1:
            self._report(f"{path}.probability", "must be from 0 to 1")
        return When(
            self._integer(f"{path}.after", given.get("after"), 0),
            first or None,
            self._integer(f"{path}.every", given.get("every"), 1, least=1),
            probability,
        )

    # The match.

    def watches(self, path: str, value: Any) -> Match:
        return self._match(path, value, _WATCH, tuple(one for one in _MATCH if one != "verbs"))

    def _match(
        self, path: str, value: Any, possible: frozenset[str], known: tuple[str, ...] = _MATCH
    ) -> Match:
        given = self._mapping(path, value, known)
        verbs = self._strings(f"{path}.verbs", given.get("verbs"))
        for number, verb in enumerate(verbs):
            if verb not in VERBS:
                self._report(f"{path}.verbs[{number}]", f"{verb!r} is not one of {', '.join(sorted(VERBS))}")
            elif verb not in possible:
                allowed = ", ".join(sorted(possible))
                self._report(
                    f"{path}.verbs[{number}]", f"{verb!r} cannot have this fault; it happens to {allowed}"
                )
        resources = self._strings(f"{path}.resources", given.get("resources"))
        return Match(
            self._text(f"{path}.user", given.get("user"), "*"),
            self._text(f"{path}.userAgent", given.get("userAgent"), "*"),
            frozenset(verbs) or possible,
            tuple(self._resource(f"{path}.resources[{n}]", one) for n, one in enumerate(resources)),
            tuple(self._strings(f"{path}.namespaces", given.get("namespaces"))),
            tuple(self._strings(f"{path}.names", given.get("names"))),
        )

    def _resource(self, path: str, text: str) -> ResourcePattern:
        if text == "*":
            return ResourcePattern("*", None, "*")
        whole, slash, subresource = text.partition("/")
        resource, dot, group = whole.partition(".")
        if not resource or (dot and not group) or (slash and not subresource) or "/" in subresource:
            self._report(path, f"{text!r} is not like pods, deployments.apps, pods/status or *")
        return ResourcePattern(resource, group if dot else None, subresource)

    # The fault.

    def _fault(self, path: str, value: Any) -> Fault:
        given = self._mapping(path, value, tuple(NAMES.values()))
        if len(given) != 1:
            found = ", ".join(given) if given else "none"
            self._report(path, f"must have exactly one of {', '.join(NAMES.values())}; it has {found}")
            return ExpiredVersion()
        kind, options = next(iter(given.items()))
        parse = {
            "delay": self._delay,
            "stale": self._stale,
            "cutWatch": self._cut_watch,
            "lagWatch": self._lag_watch,
            "repeatEvents": self._repeat_events,
            "expired": lambda path, value: self._without_options(path, value, ExpiredVersion),
            "conflict": lambda path, value: self._without_options(path, value, WriteConflict),
            "error": self._error,
            "loseReply": self._lose_reply,
        }.get(kind)
        return ExpiredVersion() if parse is None else parse(f"{path}.{kind}", options)

    def _without_options(self, path: str, value: Any, make: Callable[[], Fault]) -> Fault:
        self._mapping(path, value, ())
        return make()

    def _delay(self, path: str, value: Any) -> Fault:
        given = self._mapping(path, value, ("seconds", "jitterSeconds"))
        seconds = self._number(f"{path}.seconds", given.get("seconds"), 0.0, most=MAX_DELAY)
        jitter = self._number(f"{path}.jitterSeconds", given.get("jitterSeconds"), 0.0, most=MAX_DELAY)
        if not given:
            self._report(path, "must have seconds or jitterSeconds")
        return Delay(seconds, jitter)

    def _stale(self, path: str, value: Any) -> Fault:
        given = self._mapping(path, value, ("versions", "seconds"))
        if len(given) != 1:
            self._report(path, "must have either versions or seconds: how old the state may be")
        return StaleRead(
            self._integer(f"{path}.versions", given.get("versions"), 0, least=1),
            self._number(f"{path}.seconds", given.get("seconds"), 0.0),
        )

    def _cut_watch(self, path: str, value: Any) -> Fault:
        given = self._mapping(path, value, ("afterEvents", "upToEvents", "end"))
        least = self._integer(f"{path}.afterEvents", given.get("afterEvents"), 0)
        most = self._integer(f"{path}.upToEvents", given.get("upToEvents"), least)
        if most < least:
            self._report(f"{path}.upToEvents", f"must not be below afterEvents ({least})")
        end = given.get("end", "clean")
        if end not in ENDS:
            self._report(f"{path}.end", f"{end!r} is not one of {', '.join(ENDS)}")
        return CutWatch(least, most, end)

    def _lag_watch(self, path: str, value: Any) -> Fault:
        given = self._mapping(path, value, ("events", "seconds"))
        if len(given) != 1:
            self._report(path, "must have either events or seconds: how late events arrive")
        return LagWatch(
            self._integer(f"{path}.events", given.get("events"), 0, least=1, most=MAX_LAG),
            self._number(f"{path}.seconds", given.get("seconds"), 0.0),
        )

    def _repeat_events(self, path: str, value: Any) -> Fault:
        given = self._mapping(path, value, ("events",))
        events = self._integer(f"{path}.events", given.get("events"), 1, least=1, most=MAX_REPEATED)
        return RepeatEvents(events)

    def _error(self, path: str, value: Any) -> Fault:
        given = self._mapping(path, value, ("code", "message", "retryAfterSeconds", "afterWrite"))
        code = given.get("code")
        if code not in CODES or isinstance(code, bool):
            self._report(f"{path}.code", f"must be one of {', '.join(map(str, CODES))}")
            code = 500
        after_write = self._boolean(f"{path}.afterWrite", given.get("afterWrite"), False)
        if after_write and code == 429:
            self._report(f"{path}.afterWrite", "must be false with code 429: it says that nothing happened")
        retry = self._integer(f"{path}.retryAfterSeconds", given.get("retryAfterSeconds"), int(code == 429))
        return ErrorResponse(
            code, self._text(f"{path}.message", given.get("message"), ""), retry, after_write
        )

    def _lose_reply(self, path: str, value: Any) -> Fault:
        given = self._mapping(path, value, ("afterWrite",))
        return LostReply(self._boolean(f"{path}.afterWrite", given.get("afterWrite"), True))

    # Values.

    def _report(self, path: str, problem: str) -> None:
        self.problems.append(f"{path}: {problem}" if path else problem)

    def _mapping(self, path: str, value: Any, known: tuple[str, ...]) -> Mapping[str, Any]:
        if value is None and not known:
            return {}
        if not isinstance(value, dict):
            self._report(path or "the rules", "must be a mapping")
            return {}
        for name in value:
            if name not in known:
                place = f"{path}.{name}" if path else str(name)
                expected = f"known here are {', '.join(known)}" if known else "there are none here"
                self._report(place, f"is not a field; {expected}")
        return {name: one for name, one in value.items() if name in known}

    def _strings(self, path: str, value: Any) -> list[str]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._report(path, "must be a list of strings")
            return []
        for number, one in enumerate(value):
            if not isinstance(one, str):
                self._report(f"{path}[{number}]", "must be a string")
        return [one for one in value if isinstance(one, str)]

    def _text(self, path: str, value: Any, default: str) -> str:
        if value is None:
            return default
        if not isinstance(value, str):
            self._report(path, "must be a string")
            return default
        return value

    def _integer(self, path: str, value: Any, default: int, *, least: int = 0, most: int = MAX_COUNT) -> int:
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self._report(path, f"must be a whole number from {least} to {most}")
            return default
        return value

    def _number(self, path: str, value: Any, default: float, *, most: float = MAX_COUNT) -> float:
        if value is None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
            self._report(path, f"must be a number from 0 to {most:g}")
            return default
        return float(value)

    def _boolean(self, path: str, value: Any, default: bool) -> bool:
        if value is None:
            return default
        if not isinstance(value, bool):
            self._report(path, "must be true or false")
            return default
        return value
