"""The batch group (v1): pods that come to an end, once or again and again."""

from __future__ import annotations

from actors.kinds.batch import cron_job, job
from actors.kinds.declaration.definition import Definition
from actors.names import Names


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    return cron_job.define(names, features), job.define(names, features)
