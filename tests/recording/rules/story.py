"""Stories for rules: objects that users and controllers write, in recorded time, fed to an engine event by event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from rewound.journal.records import Event
from rewound.recording.query.entries import Kind
from rewound.recording.query.moments import rfc3339
from rewound.recording.rules.engine import Alert, Engine, Rule
from rewound.recording.rules.file import parse_rules
from rewound.recording.rules.occurrence import Occurrence
from tests.cases import checking

SECOND = 1_000_000
MINUTE = 60 * SECOND
START = 1_790_000_000 * SECOND

CONFIG_MAP = Kind("configmaps", "ConfigMap", "v1", True)
DEPLOYMENT = Kind("deployments.apps", "Deployment", "apps/v1", True)
LEASE = Kind("leases.coordination.k8s.io", "Lease", "coordination.k8s.io/v1", True)
NAMESPACE = Kind("namespaces", "Namespace", "v1", False)
NODE = Kind("nodes", "Node", "v1", False)
POD = Kind("pods", "Pod", "v1", True)
SECRET = Kind("secrets", "Secret", "v1", True)
STATEFUL_SET = Kind("statefulsets.apps", "StatefulSet", "apps/v1", True)

HEADER = b"apiVersion: rewound.cluster.io/v1alpha1\nkind: Rules\n"


def rules_of(text: str) -> tuple[Rule, ...]:
    """The rules of a file, without its apiVersion and kind; built-in ones too, unless it switches them off."""
    return parse_rules(HEADER + text.encode(), "rules.yaml").rules


def only(name: str, **parameters: Any) -> list[Rule]:
    """One built-in rule."""
    text = f"builtIn: {orjson.dumps({name: parameters}).decode()}\n"
    return [rule for rule in rules_of(text) if rule.name == name]


def each(*stories: Callable[[], None]) -> None:
    """Run small stories as cases of one test: all of them, even if one fails."""
    with checking() as case:
        for one in stories:
            with case(one.__name__):
                one()


class Story:
    def __init__(self, rules: Sequence[Rule]) -> None:
        self.engine = Engine(list(rules))
        self.now = START
        self.alerts: list[Alert] = []
        self.occurrences: list[Occurrence] = []
        self._bodies: dict[int, bytes] = {}
        self._newest: dict[tuple[str, str, str], int] = {}
        self._offset = 0

    def wait(self, seconds: float) -> None:
        """Let time pass, with the ticks of a clock."""
        self.now += round(seconds * SECOND)
        self.alerts += self.engine.advance(self.now)

    def write(
        self,
        kind: Kind,
        name: str,
        document: dict[str, Any],
        *,
        by: str = "alice",
        manager: str = "",
        verb: str = "",
        removed: bool = False,
        namespace: str = "shop",
        written: int | None = None,
        reason: str = "",
    ) -> Occurrence:
        """`written`: when the server wrote it, by its own clock, if not now."""
        self._offset += 1
        namespace = namespace if kind.namespaced else ""
        key = (kind.type_name, namespace, name)
        previous = self._newest.get(key, 0)
        when = rfc3339(self.now if written is None else written)[:19] + "Z"
        metadata = {
            "name": name,
            "resourceVersion": str(self._offset),
            "managedFields": [{"manager": manager or by, "time": when}],
            **document.get("metadata", {}),
        }
        body = orjson.dumps({**document, "metadata": metadata})
        verb = verb or ("delete" if removed else "update" if previous else "create")
        event = Event(
            *(self._offset, 1, verb, namespace, name, previous, removed, self.now, by, manager or by, b""),
            body,
            reason,
        )
        self._bodies[self._offset] = body
        if removed:
            self._newest.pop(key, None)
        else:
            self._newest[key] = self._offset
        return self.feed(Occurrence(kind, event, self._bodies.get))

    def delete(self, kind: Kind, name: str, **more: Any) -> Occurrence:
        return self.write(kind, name, {}, removed=True, **more)

    def refuse(
        self, user: str, code: int = 403, *, message: str = "no", conflict: bool = False
    ) -> Occurrence:
        event = Event(0, 0, "create", "shop", "web", 0, False, self.now, user, "kubectl", b"", b"")
        request = {
            "user": user,
            "code": code,
            "message": message,
            "reason": "Forbidden",
            "conflict": conflict,
        }
        return self.feed(Occurrence(POD, event, lambda _: None, refused=request))

    def feed(self, occurrence: Occurrence) -> Occurrence:
        self.occurrences.append(occurrence)
        self.alerts += self.engine.feed(occurrence)
        return occurrence

    def announced(self) -> list[tuple[str, str]]:
        """State and rule of the alerts so far."""
        return [(one.state, one.rule) for one in self.alerts]

    def fired(self, rule: str) -> list[Alert]:
        return [one for one in self.alerts if one.rule == rule and one.state == "firing"]
