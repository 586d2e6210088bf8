"""Whether there is memory for more pods: a server that is short of it creates none in namespaces that have many.

Every stored pod takes memory in the cache and in the scheduler. Above its limit the server would reject everybody's
requests (`--memory-limit`), so before that the namespaces with many pods get no more, and others still do. Waiting pods
are retried with a growing pause, and created when pods are deleted.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.controllers.context import ControllerContext
from rewound.actors.errors import RequestError
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.workloads.cache import Cache

MANY: Final = 1000  # pods of a namespace, which take about 20 MB


class NoRoom(RequestError):
    def __init__(self, namespace: str) -> None:
        self.message = (
            f"the server is short of memory, and the namespace {namespace} has many pods; delete some, "
            "or give the server a larger --memory-limit"
        )


class PodRoom:
    def __init__(self, context: ControllerContext, cache: Cache) -> None:
        self._is_short = context.is_short_of_memory
        self._pods = cache.collection("pods")

    def check(self, definition: Definition, namespace: str) -> None:
        """Called before an object is created. Raises NoRoom if it may not be."""
        if definition.type_name != "pods":
            return
        if len(self._pods.in_namespace(namespace)) >= MANY and self._is_short():
            raise NoRoom(namespace)
