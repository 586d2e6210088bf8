"""docs/decisions/0011-defaults.md: filling in defaults from tables, and by functions generated for each struct."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import trio

from benchmarks.decisions.kinds.generated_defaults import Generated
from benchmarks.decisions.measure import Effort, compare, effort_of_command_line
from benchmarks.decisions.samples import config_map, definition, pod
from benchmarks.decisions.store import Store, stored
from rewound.actors.kinds.schema.decoder import Schema
from rewound.actors.kinds.schema.pydantic_decoder import Fill, fill_of


def main(effort: Effort) -> None:
    trio.run(_main, effort)


async def _main(effort: Effort) -> None:
    async with stored() as store:
        await _measure(store, "configmaps", "a ConfigMap of 1 kB", config_map(), effort)
        await _measure(store, "pods", "a pod with 1 container", pod(1), effort)
        await _measure(store, "pods", "a pod with 20 containers", pod(20), effort)


async def _measure(store: Store, plural: str, title: str, document: Any, effort: Effort) -> None:
    schema, raw = definition(plural).schema, orjson.dumps(document)
    table, generated = fill_of(schema._struct), Generated().of(schema._struct)
    assert generated is not None
    forms = {"tables": table, "generated functions": generated}
    assert len({_decoded(schema, raw, fill) for fill in forms.values()}) == 1

    compare(f"decode {title}", {name: _decode(schema, raw, fill) for name, fill in forms.items()}, effort)
    setups = {name: _use(schema, fill) for name, fill in forms.items()}
    await store.compare(f"create {title}", plural, store.create(plural, document), setups, effort)
    _use(schema, table)()


def _use(schema: Schema, fill: Fill) -> Callable[[], None]:
    def use() -> None:
        schema._pydantic._fill_defaults = fill

    return use


def _decode(schema: Schema, raw: bytes, fill: Fill) -> Callable[[], object]:
    use = _use(schema, fill)

    def work() -> object:
        use()
        return schema.decode_json(raw)

    return work


def _decoded(schema: Schema, raw: bytes, fill: Fill) -> bytes:
    _use(schema, fill)()
    return orjson.dumps(schema.decode_json(raw).object)


if __name__ == "__main__":
    main(effort_of_command_line())
