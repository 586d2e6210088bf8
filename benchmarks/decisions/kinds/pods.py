"""docs/decisions/0012-plain-containers.md: validation of pods with and without the check for plain containers."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import trio

from benchmarks.decisions.measure import Effort, compare, effort_of_command_line
from benchmarks.decisions.samples import definition, pod
from benchmarks.decisions.store import Store, stored
from rewound.actors.kinds.core import containers
from rewound.actors.kinds.core.containers import is_plain
from rewound.actors.kinds.validation import collect
from rewound.actors.messages import Object


def main(effort: Effort) -> None:
    trio.run(_main, effort)


async def _main(effort: Effort) -> None:
    async with stored() as store:
        for count in (1, 20):
            await _measure(store, count, effort)


async def _measure(store: Store, count: int, effort: Effort) -> None:
    kind, document = definition("pods"), pod(count)
    decoded = kind.schema.decode_json(orjson.dumps(document)).object
    assert all(is_plain(one, {"v": {}, "c": {}}) for one in decoded["spec"]["containers"])
    forms = {"with the check": _use(is_plain), "without": _use(lambda *_: False)}

    def validate(use: Callable[[], None]) -> Callable[[], object]:
        def work() -> object:
            use()
            errors = collect(kind.strategy.validate_create, decoded)
            assert not errors
            return errors

        return work

    title = f"a pod with {count} containers"
    compare(f"validate {title}", {name: validate(use) for name, use in forms.items()}, effort)
    await store.compare(f"create {title}", "pods", store.create("pods", document), forms, effort)
    _use(is_plain)()


def _use(check: Callable[[Object, Object], bool]) -> Callable[[], None]:
    def use() -> None:
        containers.is_plain = check  # type: ignore[assignment]

    return use


if __name__ == "__main__":
    main(effort_of_command_line())
