"""What the checks of the Pod Security Standards read of a pod or of a pod template, and the words of their reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from actors.messages import Object

_EMPTY: Object = {}


class Violation(NamedTuple):
    """One check that a pod fails: what it is about, and where in the pod."""

    reason: str
    detail: str


class Container(NamedTuple):
    name: str
    context: Object  # its securityContext
    ports: Sequence[Object]


class EvaluatedPod:
    """Made once for all checks of a pod."""

    __slots__ = ("annotations", "containers", "context", "is_windows", "spec", "volumes")

    def __init__(self, metadata: Object | None, spec: Object) -> None:
        self.annotations: dict[str, str] = (metadata or _EMPTY).get("annotations") or _EMPTY
        self.spec = spec
        self.context: Object = spec.get("securityContext") or _EMPTY
        self.volumes: Sequence[Object] = spec.get("volumes") or ()
        self.is_windows = (spec.get("os") or _EMPTY).get("name") == "windows"
        self.containers = [
            Container(one.get("name", ""), one.get("securityContext") or _EMPTY, one.get("ports") or ())
            for part in ("initContainers", "containers", "ephemeralContainers")
            for one in spec.get(part) or ()
        ]


Check = Callable[[EvaluatedPod], Violation | None]


def contexts_with(pod: EvaluatedPod, member: str, is_wrong: Callable[[Any], bool]) -> list[str]:
    """The pod and the containers whose securityContext sets the member to a wrong value, in words."""
    setters = ["pod"] if member in pod.context and is_wrong(pod.context[member]) else []
    named = [one.name for one in pod.containers if member in one.context and is_wrong(one.context[member])]
    return [*setters, containers(named)] if named else setters


def containers(names: Sequence[str]) -> str:
    return f"{plural('container', names)} {quoted(names)}"


def quoted(texts: Iterable[str]) -> str:
    return ", ".join(f'"{one}"' for one in texts)


def plural(word: str, counted: Sequence[Any] | set[str]) -> str:
    return word if len(counted) == 1 else f"{word}s"
