"""Caches the policy of every namespace, because every create of a pod needs it; the feed keeps it up to date."""

from __future__ import annotations

from collections.abc import Sequence

from actors.admission.plugins.pod_security.policy import NamespacePolicy, PolicyLabels
from actors.errors import Resource
from actors.selectors.facts import unpack_labels
from actors.store.feed import Feed
from journal.log import Journal
from journal.records import Event

NAMESPACES = Resource("", "namespaces")


class NamespacePolicies:
    def __init__(self, labels: PolicyLabels, journal: Journal, feed: Feed) -> None:
        self._labels = labels
        self._journal = journal
        self._type_id = journal.type_id("namespaces")
        self._known: dict[str, NamespacePolicy] = {}
        feed.follow(self._committed, frozenset({self._type_id}))

    def of(self, namespace: str) -> NamespacePolicy | None:
        """None if there is no such namespace. Any thread may call it."""
        return self._known.get(namespace) or self._look_up(namespace)

    def _look_up(self, namespace: str) -> NamespacePolicy | None:
        with self._journal.read() as view:
            row = view.get(self._type_id, "", namespace)
        if row is None:
            return None
        # Not over what the feed has put there meanwhile, if this is the worker thread.
        return self._known.setdefault(namespace, self._labels.policy_of(unpack_labels(row.facts)))

    def _committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id != self._type_id:
                continue
            if event.removed:
                self._known.pop(event.name, None)
            else:
                self._known[event.name] = self._labels.policy_of(unpack_labels(event.facts))
