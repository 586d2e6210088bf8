"""When and how the containers of a pod end that is stopped.

All begin to stop at once: their preStop hooks run. Containers then end; a sidecar waits until the containers and
the sidecars after it have ended. Whatever is left when the grace period is over is killed; a container that had to wait
for its hook or its turn still has two seconds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from rewound.actors.messages import Object
from rewound.actors.nodes.behaviour import Behaviour
from rewound.actors.nodes.containers import KILLED, SECOND, hook_seconds

_SHORTEST: Final = 2 * SECOND  # that a container has to end


class Ending(NamedTuple):
    finished: int
    code: int
    hook_failed: int | None = None  # when its preStop hook failed


def takes_time(spec: Object, behaviour: Behaviour) -> bool:
    """Whether a pod may take time to stop."""
    if behaviour.terminate_after or any(name == "terminate-after" for name, _ in behaviour.of_containers):
        return True
    return any(
        "preStop" in (one.get("lifecycle") or {})
        for kind in ("containers", "initContainers")
        for one in spec.get(kind) or ()
    )


def endings(
    spec: Object,
    running: Collection[str],
    behaviour: Behaviour,
    begun: int,
    grace: float,
    features: frozenset[str],
) -> dict[str, Ending]:
    """How those containers end that run, if the pod begins to stop at `begun`; times are in microseconds."""
    deadline = begun + round(grace * SECOND)

    def ending(container: Object, turn: int) -> Ending:
        """How one ends whose turn comes at a time."""
        name = container["name"]
        hook, failed = (container.get("lifecycle") or {}).get("preStop"), None
        if hook is not None:
            seconds = hook_seconds(hook, behaviour.seconds("pre-stop-for", name) or 0.0, features)
            if (fails := behaviour.seconds("fail-pre-stop", name)) is not None:
                seconds, failed = fails, begun + round(fails * SECOND)
            turn = max(turn, begun + round(seconds * SECOND))
        turn = min(turn, deadline)
        killed = max(deadline, turn + _SHORTEST) if turn > begun else deadline
        finished = turn + round((behaviour.seconds("terminate-after", name) or 0.0) * SECOND)
        hook_failed = failed if failed is not None and failed <= deadline else None
        return Ending(
            min(finished, killed), 0 if finished < killed or turn == finished else KILLED, hook_failed
        )

    made = {
        one["name"]: ending(one, begun)
        for kind in ("containers", "ephemeralContainers")
        for one in spec.get(kind) or ()
        if one["name"] in running
    }
    turn = max(
        (made[one["name"]].finished for one in spec["containers"] if one["name"] in made), default=begun
    )
    for one in reversed(spec.get("initContainers") or ()):
        if one["name"] in running:
            is_sidecar = one.get("restartPolicy") == "Always"
            made[one["name"]] = ending(one, turn if is_sidecar else begun)
            turn = made[one["name"]].finished if is_sidecar else turn
    return made
