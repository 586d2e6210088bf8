"""The values that the server chose in a run: uids, versions, generated names, addresses, ports, nodes.

They differ between two runs of the same controllers, which copy them into labels, references and texts. So a value is
identified by its origin:

    a Job's uid            "uid of jobs.batch default/web", wherever it occurs, also within a text or a key
    a generated name       "web-*", likewise
    an address             "address of services default/web", likewise
    a port, a version      they look like any number: two that differ count as the same if they are of the same object
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Final

from rewound.actors.kinds.values.times import seconds_text
from rewound.testing.explore.invariants import Key, Version
from rewound.testing.explore.still_server import BEGIN

_UID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
_NUMBER: Final = re.compile(r"\d+")
_NO_NAME: Final = re.compile(r"(?!)")
_MONTH: Final = seconds_text(BEGIN)[:8]  # 2026-01-, in which all runs happen
TIME: Final = "time of the run"


class Chosen:
    """Collects chosen values from the versions of a run; callers query it when the run has ended."""

    def __init__(self) -> None:
        self._generated: dict[str, str] = {}
        self._uids: dict[str, Key] = {}
        self._addresses: dict[str, Key] = {}
        self._values: dict[
            str, set[tuple[str, Key]]
        ] = {}  # chosen numbers and nodes: the field, and its object

    def add(self, version: Version) -> None:
        key = (version.resource, version.namespace, version.name)
        self._values.setdefault(str(version.number), set()).add(("version", key))
        if version.new is None:
            return
        metadata = version.new["metadata"]
        self._uids.setdefault(metadata["uid"], key)
        prefix = metadata.get("generateName")
        if prefix and version.name.startswith(prefix):
            self._generated[version.name] = f"{prefix}*"
        if version.resource == "services":
            self._add_service(key, version.new["spec"])
        elif version.resource == "pods":
            self._add_pod(key, version)

    def _add_service(self, key: Key, spec: Any) -> None:
        for address in spec.get("clusterIPs", ()):
            if address != "None":
                self._addresses[address] = key
        ports = [port.get("nodePort") for port in spec.get("ports") or ()]
        for port in (*ports, spec.get("healthCheckNodePort")):
            if port:
                self._values.setdefault(str(port), set()).add(("port", key))

    def _add_pod(self, key: Key, version: Version) -> None:
        """The scheduler chooses a node, and the node an address."""
        node = version.new["spec"].get("nodeName")
        if node and version.old is not None and not version.old["spec"].get("nodeName"):
            self._values.setdefault(node, set()).add(("node", key))
        status = version.new.get("status") or {}
        for one in status.get("podIPs") or ():
            self._addresses[one["ip"]] = key
        if status.get("hostIP"):
            self._values.setdefault(status["hostIP"], set()).add(("node", key))

    # Queries, when the run has ended.

    def name(self, key: Key) -> str:
        """The name of an object, with `*` for a generated part: `pods default/web-*`."""
        resource, namespace, name = key
        return f"{resource} {'/'.join(filter(None, (namespace, self.text(name))))}"

    def text(self, text: str) -> str:
        """Replace uids, generated names, addresses and times in a text by their origins."""
        found = self._names.sub(lambda match: self._generated[match[0]], text)
        found = _UID.sub(self._uid, found)
        found = self._known_addresses.sub(
            lambda match: f"address of {self.name(self._addresses[match[0]])}", found
        )
        return _TIME.sub(lambda match: TIME if match[0].startswith(_MONTH) else match[0], found)

    def _uid(self, match: re.Match[str]) -> str:
        key = self._uids.get(match[0])
        return match[0] if key is None else f"uid of {self.name(key)}"

    @cached_property
    def _names(self) -> re.Pattern[str]:
        return _any_of(self._generated, r"(?<![a-z0-9])", r"(?![a-z0-9])")

    @cached_property
    def _known_addresses(self) -> re.Pattern[str]:
        return _any_of(self._addresses, r"(?<![0-9a-f:.])", r"(?!\.?[0-9a-f]|::|:[0-9a-f]*:)")

    def origins(self, value: str) -> frozenset[str]:
        """Where a number, as text, or the name of a node may come from."""
        return frozenset(f"{what} of {self.name(key)}" for what, key in self._values.get(value, ()))


def _any_of(words: dict[str, Any], before: str, after: str) -> re.Pattern[str]:
    if not words:
        return _NO_NAME
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return re.compile(f"{before}(?:{'|'.join(map(re.escape, longest_first))}){after}")


def same_origin(one: Any, chosen: Chosen, other: Any, chosen_otherwise: Chosen) -> bool:
    """Whether two different values of two runs are numbers, or texts with numbers, that the server chose."""
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    if not (isinstance(one, (str, int)) and isinstance(other, (str, int))):
        return False
    whole = [(str(one), str(other))]
    return any(
        pairs and all(chosen.origins(a) & chosen_otherwise.origins(b) for a, b in pairs)
        for pairs in (whole, _different_numbers(*whole[0]))
    )


def _different_numbers(one: str, other: str) -> list[tuple[str, str]]:
    """The pairs of different numbers in two texts that are otherwise the same."""
    if _NUMBER.sub("0", one) != _NUMBER.sub("0", other):
        return []
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return [(a, b) for a, b in pairs if a != b]
