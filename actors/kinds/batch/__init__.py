"""The batch group (v1): pods that come to an end, once or again and again."""

from __future__ import annotations

from actors.kinds.batch import cron_job, job
from actors.kinds.definition import Definition
from actors.names import Names

_KINDS = (cron_job, job)


def declare(names: Names) -> tuple[Definition, ...]:
    return tuple(kind.define(names) for kind in _KINDS)
