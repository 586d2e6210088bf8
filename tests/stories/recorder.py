"""Records where the controllers, scheduler and nodes of a server come to rest in a story.

    with connected("https://127.0.0.1:6443", token) as api:
        recorded = record(api, story, quiet=3)

The server is Kubernetes, or another version of Rewound; its nodes are those that the story plays. A point of comparison
is reached when its conditions hold and nothing was written for `quiet` seconds. Nothing else may use the server.
"""

from __future__ import annotations

import uuid

from tests.stories.api import WORLD, Api, Object
from tests.stories.player import Play

_EMPTIED_WITHIN = 60.0  # seconds
_WRITTEN = ("Node", "Event", "PersistentVolume")  # beside the kinds of a recorded state


def record(api: Api, story: Object, *, quiet: float) -> Object:
    """The story with answers and states. `unsettled` names points of comparison that were not reached in time."""
    recording = _Recording(api, story, quiet)
    recording.run()
    result = {**story, "recordings": 1, "answers": recording.answers, "recorded": recording.states}
    return result | ({"unsettled": recording.unsettled} if recording.unsettled else {})


class _Recording(Play):
    def __init__(self, api: Api, story: Object, quiet: float) -> None:
        super().__init__(api, story, own_nodes=False)
        self._namespace += f"-{uuid.uuid4().hex[:5]}"  # the one of an earlier recording may still end
        self._quiet = quiet
        self.answers: dict[str, Object] = {}
        self.states: dict[str, Object] = {}
        self.unsettled: list[str] = []

    def note_answer(self, number: int, step: Object, found: Object) -> list[str]:
        self.answers[str(number)] = found
        return []

    def settle(self, step: Object) -> list[str]:
        end = self._api.elapsed + step.get("timeout", 60)
        quiet = max(self._quiet, step.get("hold", 0))
        before, since = self._versions(), self._api.elapsed
        while True:
            self.until(lambda: False, min(0.5, quiet))
            versions = self._versions()
            if versions != before:
                before, since = versions, self._api.elapsed
            held = all(map(self.holds, step.get("until", ())))
            if held and self._api.elapsed >= since + quiet:
                break
            if self._api.elapsed >= end:
                self.unsettled.append(step["name"])
                break
        self.states[step["name"]] = self.world_now()
        return []

    def _versions(self) -> set[tuple[str, str]]:
        """Of all objects that the story can change."""
        return {
            (one["metadata"]["uid"], one["metadata"]["resourceVersion"])
            for kind in (*WORLD, *_WRITTEN)
            for one in self._api.list(kind, "" if kind == "Node" else self._namespace)
        }

    def clean(self) -> None:
        """Remove everything; the namespace itself may still exist for a while, empty."""
        api = self._api
        api.delete(api.path("Namespace", "", self._namespace))
        for kind, name in self._created:
            api.delete(api.path(kind, "", name))
        emptied = self.until(self._is_empty, _EMPTIED_WITHIN)
        assert emptied, f"{self._namespace} still has pods after {_EMPTIED_WITHIN:.0f} seconds"
        for name in self._node_names:
            self._nodes.remove(name)

    def _is_empty(self) -> bool:
        pods = self._api.list("Pod", self._namespace)
        for pod in pods:
            path = self._api.path("Pod", self._namespace, pod["metadata"]["name"])
            annotations = pod["metadata"].get("annotations") or {}
            if "sim/hold-termination" in annotations or pod["metadata"].get("finalizers"):
                freed = {"metadata": {"annotations": {"sim/hold-termination": None}, "finalizers": None}}
                self._api.patch(path, freed)
            self._api.delete(path, gracePeriodSeconds=0)
        return not pods
