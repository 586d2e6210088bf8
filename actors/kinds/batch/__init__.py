"""The batch group (v1): Job, pods that run to completion, and CronJob, jobs on a schedule."""

from __future__ import annotations

from actors.kinds.batch import cron_job, job
from actors.kinds.declaration.definition import Definition
from actors.names import Names


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    return cron_job.define(names, features), job.define(names, features)
