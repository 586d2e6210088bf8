"""Where a recorder reads its rules: a file, or a ConfigMap of the recorded cluster. Both are followed.

A ConfigMap is read with `list`, the right that a recorder has anyway. Its newest valid content is kept in the folder,
so that a start without the API server has rules. Whoever may write it is not the operator of the recorder: files that
its sinks name must be below `/etc/rewound/sinks`, else it could have the account's own token sent anywhere.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final

import orjson

from rewound.actors.certificates.pki import write_atomically
from rewound.client.errors import ClientError, UsageError
from rewound.client.session import Session
from rewound.recording.rules.file import BadRules, RuleFile, parse_rules, read_rules

logger = logging.getLogger(__name__)

CONFIG_MAP: Final = "configmap:"
KEPT: Final = "rules-kept.json"  # in the folder: the newest valid content of the ConfigMap
SINK_FILES: Final = Path("/etc/rewound/sinks")
_KEY: Final = "rules.yaml"


class RulesSource(ABC):
    """Its methods may take seconds: call them in a thread."""

    @abstractmethod
    def read(self, folder: Path) -> RuleFile | None:
        """The rules if they have changed since the last call. Raises BadRules, ClientError or OSError."""

    def refuse(self, error: BadRules) -> None:  # noqa: B027 - a file has nobody to tell
        """Report that the rules are not used, beside the log."""


class RulesFile(RulesSource):
    def __init__(self, path: Path) -> None:
        """Raises BadRules or OSError: whoever starts a recorder is there to correct them."""
        self._path = path
        self._seen = (0, 0, 0)
        read_rules(path)

    def read(self, folder: Path) -> RuleFile | None:
        seen = _changed(self._path)
        if seen == self._seen:
            return None
        self._seen = seen
        return read_rules(self._path)


def _changed(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


class RulesConfigMap(RulesSource):
    def __init__(self, text: str, session: Session) -> None:
        """`text`: NAMESPACE/NAME. Raises UsageError."""
        self._namespace, slash, self._name = text.partition("/")
        if not slash or not self._namespace or not self._name or "/" in self._name:
            raise UsageError(
                f"--rules: {CONFIG_MAP}{text} names no ConfigMap; write {CONFIG_MAP}NAMESPACE/NAME"
            )
        self._session = session
        self._seen: tuple[str, str] | None = None
        self._metadata: dict[str, Any] = {}

    @property
    def where(self) -> str:
        return f"ConfigMap {self._namespace}/{self._name}"

    def read(self, folder: Path) -> RuleFile | None:
        kept = folder / KEPT
        try:
            listed = self._session.get(
                f"/api/v1/namespaces/{self._namespace}/configmaps",
                fieldSelector=f"metadata.name={self._name}",
            )
        except ClientError:
            if self._seen is None and kept.exists():
                self._seen = ("", "")
                logger.warning("%s cannot be read: the rules are those of %s", self.where, kept)
                return self._parse(orjson.loads(kept.read_bytes())["rules"])
            raise
        items = listed.get("items") or []
        if not items:
            raise ClientError(f"{self.where} does not exist; create it with the key {_KEY}")
        metadata = items[0].get("metadata") or {}
        seen = str(metadata.get("uid")), str(metadata.get("resourceVersion"))
        if seen == self._seen:
            return None
        self._seen, self._metadata = seen, metadata
        found = self._parse(self._text(items[0].get("data") or {}))
        write_atomically(kept, orjson.dumps({"rules": self._text(items[0]["data"])}), 0o600)
        return found

    def _text(self, data: dict[str, str]) -> str:
        if _KEY in data:
            return data[_KEY]
        if len(data) == 1:
            return next(iter(data.values()))
        raise BadRules(f"{self.where} has {len(data)} keys and no {_KEY}; put the rules there")

    def _parse(self, text: str) -> RuleFile:
        found = parse_rules(text.encode(), self.where)
        for one in found.sinks:
            for path in (one.token_file, one.ca_file):
                if path is not None and not path.resolve().is_relative_to(SINK_FILES):
                    raise BadRules(
                        f"{self.where}: a sink names {path}; in a ConfigMap, files of sinks must be in {SINK_FILES}"
                    )
        return found

    def refuse(self, error: BadRules) -> None:
        """Write an Event about the ConfigMap; one for each of its versions."""
        uid, version = self._seen or ("", "")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{self._name}.{version or 'rules'}"[-253:], "namespace": self._namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "namespace": self._namespace,
                "name": self._name,
                "uid": uid,
                "resourceVersion": version,
            },
            "type": "Warning",
            "reason": "InvalidRules",
            "message": f"the rules stay as they are: {error}"[:1000],
            "source": {"component": "rewound"},
        }
        try:
            self._session.post(f"/api/v1/namespaces/{self._namespace}/events", event)
        except ClientError as problem:
            logger.info("no Event says that the rules are invalid: %s", problem)


def source_of(text: str, session: Session) -> RulesSource:
    """Raises UsageError, BadRules or OSError."""
    if text.startswith(CONFIG_MAP):
        return RulesConfigMap(text.removeprefix(CONFIG_MAP), session)
    return RulesFile(Path(text))
