"""Random commands for a few objects of one kind, many of which concern the same object."""

from __future__ import annotations

import random
from typing import Any

from rewound.actors.messages import Command, Create, Delete, DeleteOptions, Patch, Replace, Submit
from tests.actors.object_store import Store

CONTAINERS = [{"name": "c", "image": "i"}]
SPECS: dict[str, dict[str, Any]] = {
    "configmaps": {},
    "leases": {"spec": {"holderIdentity": "x"}},
    "pods": {"spec": {"containers": CONTAINERS, "terminationGracePeriodSeconds": 5}},
    "services": {"spec": {"type": "NodePort", "ports": [{"port": 80}]}},
}
FINALIZERS = ([], [], ["example.com/x"])


class RandomCommands:
    """Commands for three objects of one kind: they often concern the same object."""

    def __init__(self, store: Store, plural: str, seed: int) -> None:
        self._random = random.Random(seed)
        self._contexts = store.write_contexts
        self._definition = store.definition(plural)
        self._plural = plural

    def next(self) -> Command:
        verbs = [self._create, self._replace, self._patch, self._apply, self._delete, self._delete]
        if self._plural == "pods":
            verbs.append(self._bind)
        return self._random.choice(verbs)()

    def _name(self) -> str:
        return self._random.choice("abc")

    def _object(self, name: str) -> dict[str, Any]:
        metadata = {
            "name": name,
            "labels": {"x": self._random.choice("12")},
            "finalizers": self._random.choice(FINALIZERS),
        }
        sent = {"metadata": metadata, **SPECS[self._plural]}
        return self._definition.schema.decode_object(sent).object

    def _dry_run(self) -> bool:
        return self._random.random() < 0.2

    def _create(self) -> Command:
        context = self._contexts.new("u", "m")
        new = self._object(self._name())
        return Create(self._definition.api_version, "default", new, context, self._dry_run())

    def _replace(self) -> Command:
        name, context = self._name(), self._contexts.new("u", "m2")
        version, new = self._definition.api_version, self._object(name)
        if self._random.random() < 0.3:
            new["metadata"]["resourceVersion"] = "1"
        return Replace(version, "default", name, new, context, "", self._dry_run(), may_create=True)

    def _patch(self) -> Command:
        formats = ("merge", "strategic", "json")
        format_, text = self._random.choice(formats), self._random.choice("123")
        patch: Any = {"metadata": {"labels": {"x": text}, "finalizers": self._random.choice(FINALIZERS)}}
        if format_ == "json":
            patch = [{"op": "replace", "path": "/metadata/labels/x", "value": text}]
        return self._patch_of(format_, patch)

    def _apply(self) -> Command:
        patch = {
            "apiVersion": self._definition.api_version,
            "kind": self._definition.kind,
            "metadata": {"labels": {self._random.choice("xyz"): self._random.choice("12")}},
            **SPECS[self._plural],
        }
        return self._patch_of("apply", patch, force=self._random.random() < 0.5, may_create=True)

    def _patch_of(self, format_: str, patch: Any, **more: Any) -> Command:
        name, context, version = self._name(), self._contexts.new("u", "m3"), self._definition.api_version
        if format_ == "apply":
            patch["metadata"]["name"] = name
        return Patch(version, "default", name, format_, patch, context, dry_run=self._dry_run(), **more)

    def _delete(self) -> Command:
        options = DeleteOptions(
            grace_period_seconds=self._random.choice((None, None, 0, 1, 3)),
            propagation_policy=self._random.choice(("", "", "Background", "Foreground", "Orphan")),
            resource_version=self._random.choice((None, None, None, "1")),
            dry_run=self._dry_run(),
        )
        context = self._contexts.new("u", "m")
        return Delete(self._definition.api_version, "default", self._name(), context, options)

    def _bind(self) -> Command:
        name, target = self._name(), {"kind": "Node", "name": "n"}
        sent = {"metadata": {"name": name}, "target": target}
        context = self._contexts.new("u", "m")
        return Submit("v1", "default", name, "binding", sent, context, self._dry_run())
