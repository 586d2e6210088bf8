"""Adds metrics for the parts of a server, which read their `statistics()` at scrape time.

`across` says how the numbers of several processes are combined; by default they add up. A worker process has the
parts of the store too, which count nothing if the writer process does their work.
"""

from __future__ import annotations

import platform
import socket
from base64 import b32encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, cast

from rewound.actors.access.authorization.statistics import CALL_BOUNDS, CONDITION_BOUNDS
from rewound.actors.admission.plugins.pod_security.plugins import PodSecurity
from rewound.actors.admission.policies.mutating import MutatingAdmissionPolicy
from rewound.actors.admission.policies.validating import ValidatingAdmissionPolicy
from rewound.actors.admission.timings import BOUNDS as TIMING_BOUNDS
from rewound.actors.admission.timings import POLICY_BOUNDS
from rewound.actors.admission.webhooks.validating import ValidatingAdmissionWebhook
from rewound.actors.conversion.converter import BOUNDS as CONVERSION_BOUNDS
from rewound.actors.kinds.rule_timings import BOUNDS as RULE_BOUNDS
from rewound.actors.kinds.rule_timings import COMPILATIONS, EVALUATIONS
from rewound.actors.store.committer import BOUNDS as WRITE_BOUNDS
from rewound.actors.versions.features import (
    CONDITIONS_BY_OPERATION,
    FEATURE_METRIC,
    KEY_SET_METRICS,
    Release,
    gates_in,
)
from rewound.gateway.ops.exposition import Distributions, Value
from rewound.gateway.ops.metrics import Metrics
from rewound.gateway.ops.request_series import summed
from rewound.gateway.watch.watched_type import EVENT_SIZES
from rewound.release import RELEASE, version_document

if TYPE_CHECKING:
    from rewound.actors.access.authentication.issuers import ConfiguredIssuers
    from rewound.actors.access.authorization.statistics import AuthorizationStatistics, WebhookStatistics
    from rewound.actors.admission.calls import CallStatistics
    from rewound.actors.admission.plugins.pod_security.plugins import Evaluations
    from rewound.actors.admission.timings import (
        ConditionTimings,
        MutationChecks,
        Timings,
        WebhookTimings,
    )
    from rewound.actors.aggregation.api_services import ApiServices
    from rewound.actors.controllers.work_queue import WorkQueueStatistics
    from rewound.actors.conversion.converter import ConversionTimings
    from rewound.actors.flowcontrol.borrowing import Demand
    from rewound.actors.flowcontrol.in_flight import InFlightLimits
    from rewound.actors.flowcontrol.priority_and_fairness import PriorityAndFairness
    from rewound.actors.flowcontrol.seats import Level
    from rewound.actors.runtime.followed_file import FollowedFiles, Reloads
    from rewound.actors.runtime.large_work import LargeWorkStatistics
    from rewound.actors.runtime.mailbox import MailboxStatistics
    from rewound.actors.scheduler.scheduler import Scheduler, SchedulerStatistics
    from rewound.actors.store.committer import CommitterStatistics
    from rewound.actors.store.etcd.etcd_node import Node
    from rewound.gateway.audit.audit_log import AuditStatistics
    from rewound.gateway.connections.server_state import ServerStatistics
    from rewound.gateway.memory.budget import MemoryStatistics
    from rewound.gateway.ops.loop_watchdog import LoopStatistics, LoopWatchdog
    from rewound.gateway.ops.operations import Operations
    from rewound.gateway.ops.processes import Members
    from rewound.gateway.store import Store
    from rewound.gateway.watch.hub import Hub
    from rewound.gateway.watch.watched_type import WatchStatistics


def meter_all(
    operations: Operations, store: Store, hub: Hub, connections: Callable[[], ServerStatistics]
) -> None:
    """Add the metrics of all parts of a server. Audit and fault rules add their own, if there are any."""
    metrics = operations.metrics
    meter_requests(metrics)
    meter_connections(metrics, connections)
    meter_flow_control(metrics, operations.limits)
    meter_store(metrics, store, operations.watchdog)
    meter_watches(metrics, hub.statistics, lambda: {**hub.running(), **metrics.requests.lasting}, hub.sent)


def meter_store(metrics: Metrics, store: Store, watchdog: LoopWatchdog) -> None:
    """Metrics of the parts below the API."""
    meter_release(metrics, RELEASE, version_document(store.release.patch_release))
    meter_features(metrics, store.release)
    meter_objects(metrics, lambda: _count_objects(store))
    meter_memory(metrics, store.memory.statistics)
    meter_loop(metrics, watchdog.statistics)
    if store.access.issuers is not None:
        meter_issuers(metrics, store.access.issuers, store.release.features)
    meter_committer(metrics, store.committer.statistics)
    if store.node is not None:
        meter_node(metrics, store.node)
    meter_writes(metrics, lambda: _write_durations(store))
    meter_controllers(metrics, lambda: {one.name: one.statistics()[1] for one in store.loops})
    metrics.gauge(
        "rewound_controller_left_out",
        "Keys that a controller leaves out, because it cannot read what is stored; the log names them.",
        lambda: {one.name: len(one.statistics()[0].left_out) for one in store.loops},
        "name",
    )
    meter_scheduler(metrics, lambda: _scheduling(store))
    meter_journal(metrics, store.journal.statistics)
    meter_mailboxes(metrics, store.directory.statistics)
    meter_large_work(metrics, store.directory.large_work.statistics)
    meter_admission(metrics, store.directory.admission_statistics)
    meter_api_services(metrics, store.api_services)
    meter_admission_timings(metrics, store.admission_timings)
    meter_conversions(metrics, store.converter.timings)
    meter_authorization(metrics, store.access.authorization)
    meter_rules(metrics)
    for plugin in store.plugins:
        if isinstance(plugin, PodSecurity):
            meter_pod_security(metrics, plugin.evaluations)
        elif isinstance(plugin, ValidatingAdmissionWebhook):  # it counts both kinds
            meter_webhooks(metrics, plugin.timings)
            meter_conditions(metrics, plugin.timings.conditions, store.release.features)
        elif isinstance(plugin, ValidatingAdmissionPolicy):
            meter_policies(metrics, plugin)
        elif isinstance(plugin, MutatingAdmissionPolicy) and plugin.checks is not None:
            meter_mutations(metrics, plugin.checks)


def meter_workers(metrics: Metrics, members: Members) -> None:
    """Metrics of the process that writes for others."""
    metrics.gauge(
        "rewound_workers",
        "Processes that serve requests: the one that writes, and those that are connected to it.",
        lambda: 1 + len(members),
    )
    metrics.counter(
        "rewound_workers_ended_total", "Processes that were connected and ended.", lambda: members.ended
    )
    metrics.counter(
        "rewound_workers_unanswered_scrapes_total",
        "Times that a scrape was without the gauges of a process, which did not answer within a second.",
        lambda: members.unanswered,
    )


def meter_requests(metrics: Metrics) -> None:
    """Metrics of the pipeline, besides the series of requests."""
    requests, authentications = metrics.requests, metrics.authentications
    metrics.gauge(
        "apiserver_current_inflight_requests",
        "Most requests that ran at the same time within the last second or two, without watches.",
        lambda: {"readOnly": metrics.reading.most(), "mutating": metrics.mutating.most()},
        "request_kind",
    )
    metrics.gauge(
        "apiserver_requested_deprecated_apis",
        "Deprecated API versions that were requested.",
        requests.deprecated,
        *("group", "version", "resource", "subresource", "removed_release"),
        across="max",
    )
    metrics.counter(
        "rewound_other_requests_total",
        "Requests that apiserver_request_total does not count: refused before a resource, or to other paths.",
        lambda: {str(code): count for code, count in requests.others.items()},
        "code",
    )
    metrics.counter(
        "authentication_attempts",
        "Requests by the result of their authentication.",
        authentications.results,
        "result",
    )
    metrics.counter(
        "authenticated_user_requests",
        "Authenticated requests by user: a few well-known names, email addresses and all others.",
        authentications.users,
        "username",
    )


def meter_release(metrics: Metrics, release: str, version: Mapping[str, str]) -> None:
    """Metrics of the release; `version` is the document of /version."""
    python = platform.python_version()
    metrics.gauge(
        "rewound_build_info",
        "The release, and the version of Python.",
        lambda: {(release, python): 1},
        *("version", "python"),
        across="max",
    )
    shown = {
        "major": "major",
        "minor": "minor",
        "git_version": "gitVersion",
        "git_commit": "gitCommit",
        "git_tree_state": "gitTreeState",
        "build_date": "buildDate",
        "go_version": "goVersion",
        "compiler": "compiler",
        "platform": "platform",
    }
    values = tuple(version[field] for field in shown.values())
    metrics.gauge("kubernetes_build_info", "What /version says.", lambda: {values: 1}, *shown, across="max")


def meter_features(metrics: Metrics, release: Release) -> None:
    """The feature gates, in the versions whose API server reports them."""
    if FEATURE_METRIC not in release.features:
        return
    values = {(name, stage): int(on) for name, stage, on in gates_in(release)}
    metrics.gauge(
        "kubernetes_feature_enabled",
        "The feature gates of the version, and whether they are on.",
        lambda: values,
        *("name", "stage"),
        across="max",
    )


def meter_objects(metrics: Metrics, read: Callable[[], Mapping[str, int]]) -> None:
    metrics.gauge(
        "apiserver_storage_objects", "Stored objects of a resource.", read, "resource", across="writer"
    )


def _count_objects(store: Store) -> dict[str, int]:
    """Stored objects by resource, from the counts in the journal."""
    catalog, found = store.registry.current, {}
    with store.journal.read() as view:
        for type_name in catalog.stored_types():
            if not catalog.storage(type_name).storage.submits_to[0]:
                type_id = store.journal.type_id(type_name)
                found[type_name] = view.count(type_id) if type_id else 0
    return found


def meter_connections(metrics: Metrics, read: Callable[[], ServerStatistics]) -> None:
    metrics.gauge("rewound_connections", "Open connections.", lambda: read().open)
    metrics.counter("rewound_connections_accepted_total", "Connections accepted.", lambda: read().accepted)
    metrics.counter(
        "rewound_connections_refused_total",
        "Requests refused before they were complete: malformed, too large, or too slow.",
        lambda: read().refused,
    )
    metrics.counter(
        "rewound_connections_timed_out_total", "Connections ended by a time limit.", lambda: read().timed_out
    )
    metrics.counter(
        "rewound_unauthenticated_delays_total",
        "Times at which a connection without an authenticated request had to wait for its turn.",
        lambda: read().delays,
    )
    for name in ("rewound_tls_handshake_errors_total", "apiserver_tls_handshake_errors_total"):
        metrics.counter(name, "TLS handshakes that failed.", lambda: read().handshake_failures)
    metrics.counter(
        "rewound_client_certificate_errors_total",
        "TLS handshakes that failed because the client's certificate cannot be verified.",
        lambda: read().certificate_failures,
    )


def meter_audit(metrics: Metrics, read: Callable[[], AuditStatistics]) -> None:
    metrics.counter("apiserver_audit_event_total", "Audit events made.", lambda: read().events)
    metrics.counter(
        "apiserver_audit_level_total", "Requests by the level of their rule.", lambda: read().levels, "level"
    )
    metrics.counter(
        "apiserver_audit_error_total",
        "Audit events that were lost, by the part of the server that lost them.",
        lambda: read().errors,
        "plugin",
    )
    metrics.counter(
        "apiserver_audit_requests_rejected_total",
        "Requests refused because their audit event could not be stored.",
        lambda: read().rejected,
    )


def meter_loop(metrics: Metrics, read: Callable[[], LoopStatistics]) -> None:
    metrics.gauge(
        "rewound_event_loop_longest_hold_seconds",
        "Longest time for which tasks held the event loop between two polls, since the start.",
        lambda: read().longest,
        across="max",
    )
    metrics.gauge(
        "rewound_event_loop_recent_hold_seconds",
        "The same, within the last one or two minutes.",
        lambda: read().recent,
        across="max",
    )
    metrics.counter(
        "rewound_event_loop_holds_total",
        "Times at which tasks held the event loop longer than 5 ms.",
        lambda: read().over_step,
    )
    metrics.counter(
        "rewound_event_loop_long_holds_total",
        "Times at which tasks held it longer than 50 ms; the log names the requests.",
        lambda: read().over_logged,
    )


def meter_issuers(metrics: Metrics, issuers: ConfiguredIssuers, features: frozenset[str]) -> None:
    """Metrics of tokens of identity providers, as Kubernetes has them."""
    from rewound.actors.access.authentication.oidc import LATENCY_BOUNDS

    server = server_id_hash()

    metrics.histogram(
        "apiserver_authentication_jwt_authenticator_latency_seconds",
        "Latency of authentications by a JSON Web Token that was not cached, in seconds",
        lambda: {
            (result, _hash(issuer)): (durations.seconds, tuple(durations.counts))
            for (result, issuer), durations in issuers.latencies().items()
        },
        LATENCY_BOUNDS,
        "result",
        "jwt_issuer_hash",
    )
    if KEY_SET_METRICS in features:
        metrics.gauge(
            "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds",
            "When the keys of an issuer were last fetched, by result",
            lambda: {
                (result, _hash(issuer), server): when
                for (result, issuer), when in issuers.key_fetches().items()
            },
            "result",
            "jwt_issuer_hash",
            "apiserver_id_hash",
            across="max",
        )
        metrics.gauge(
            "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info",
            "The hash of the keys of an issuer that were last fetched",
            lambda: {(_hash(issuer), server, keys): 1 for issuer, keys in issuers.key_sets().items()},
            "jwt_issuer_hash",
            "apiserver_id_hash",
            "hash",
            across="max",
        )
    if (reloads := issuers.reloads) is not None:
        meter_reloads(metrics, "authentication", reloads)


def _hash(text: str) -> str:
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def meter_memory(metrics: Metrics, read: Callable[[], MemoryStatistics]) -> None:
    metrics.gauge(
        "rewound_memory_limit_bytes",
        "What all processes of the server may use (--memory-limit).",
        lambda: read().limit,
        across="max",
    )
    metrics.gauge(
        "rewound_memory_used_bytes",
        "Anonymous memory of all processes of the server, as the limit counts it.",
        lambda: read().used,
        across="max",
    )
    metrics.gauge("rewound_memory_held_bytes", "What large requests hold of it.", lambda: read().held)
    metrics.gauge("rewound_memory_waiting", "Requests that wait for memory.", lambda: read().waiting)
    metrics.counter(
        "rewound_memory_refused_total", "Requests refused for lack of memory.", lambda: read().refused
    )


def meter_flow_control(metrics: Metrics, seats: PriorityAndFairness | InFlightLimits) -> None:
    """Metrics of priority and fairness; the labels are the stored PriorityLevelConfigurations and FlowSchemas."""

    def of_levels(read: Callable[[Level], float]) -> Callable[[], Mapping[str, float]]:
        return lambda: {
            name: read(level) for name, level in seats.levels.items() if not level.settings.exempt
        }

    metrics.gauge(
        "apiserver_flowcontrol_request_concurrency_limit",
        "Seats of a priority level.",
        of_levels(lambda level: level.settings.seats if seats.borrows else level.limit),
        "priority_level",
        across="max",
    )
    for name, text, read in (
        ("request_concurrency_in_use", "Seats that running requests take.", lambda level: level.executing),
        ("current_executing_requests", "Running requests.", lambda level: level.running),
        ("current_inqueue_requests", "Waiting requests.", lambda level: level.waiting),
    ):
        metrics.gauge(f"apiserver_flowcontrol_{name}", text, of_levels(read), "priority_level")
    if seats.borrows:
        _meter_borrowing(metrics, seats)
    metrics.gauge(
        "rewound_flowcontrol_outside_requests",
        "Requests that wait for somebody outside, such as a webhook, and have no seats meanwhile.",
        of_levels(lambda level: level.outside.taken),
        "priority_level",
    )
    schema_labels = ("priority_level", "flow_schema")
    metrics.counter(
        "apiserver_flowcontrol_dispatched_requests_total",
        "Requests that were started.",
        lambda: {(one.level, one.schema): one.dispatched for one in seats.counts()},
        *schema_labels,
    )
    metrics.counter(
        "apiserver_flowcontrol_rejected_requests_total",
        "Requests that were refused with 429, or cancelled while they waited.",
        lambda: {
            (one.level, one.schema, reason): number
            for one in seats.counts()
            for reason, number in one.rejected.items()
        },
        *schema_labels,
        "reason",
    )


def _meter_borrowing(metrics: Metrics, seats: PriorityAndFairness | InFlightLimits) -> None:
    """Seats that levels lend and borrow."""

    def of_levels(read: Callable[[Level, Demand], float]) -> Callable[[], Mapping[str, float]]:
        return lambda: {
            name: read(level, level.demanded)
            for name, level in seats.levels.items()
            if level.demanded is not None
        }

    for name, text, read in (
        (
            "nominal_limit_seats",
            "Seats of a level by its shares.",
            lambda one, _: one.settings.limits.nominal,
        ),
        ("lower_limit_seats", "Seats that a level does not lend.", lambda one, _: one.settings.limits.lower),
        (
            "upper_limit_seats",
            "Seats of a level with all that it may borrow.",
            lambda one, _: one.settings.limits.upper,
        ),
        ("current_limit_seats", "Seats that a level has now.", lambda one, _: one.limit),
        ("target_seats", "Seats that a level should have by its demand.", lambda one, _: one.target),
        (
            "demand_seats_high_watermark",
            "The most seats that a level could use in the last period.",
            lambda _, demand: demand.watermark,
        ),
        ("demand_seats_average", "The average of these seats.", lambda _, demand: demand.average),
        ("demand_seats_stdev", "Their standard deviation.", lambda _, demand: demand.deviation),
        (
            "demand_seats_smoothed",
            "Average and deviation, which fall slowly.",
            lambda _, demand: demand.smoothed,
        ),
    ):
        metrics.gauge(f"apiserver_flowcontrol_{name}", text, of_levels(read), "priority_level")
    metrics.gauge(
        "apiserver_flowcontrol_seat_fair_frac",
        "The fraction of its target that each level gets.",
        lambda: seats.fair_fraction,
    )


def meter_committer(metrics: Metrics, read: Callable[[], CommitterStatistics]) -> None:
    metrics.counter("rewound_commits_total", "Durable transactions written.", lambda: read().commits)
    metrics.counter(
        "rewound_committed_events_total", "Events in durable transactions.", lambda: read().events
    )
    metrics.counter("rewound_commit_failures_total", "Transactions refused.", lambda: read().failures)
    metrics.counter("rewound_commit_seconds_total", "Time spent writing.", lambda: read().seconds)
    metrics.gauge("rewound_commit_waiting_events", "Events not yet durable.", lambda: read().waiting)
    metrics.gauge(
        "rewound_commit_largest_batch", "Most events in one transaction.", lambda: read().largest_batch
    )


def meter_node(metrics: Metrics, node: Node) -> None:
    """Metrics of a node of a cluster whose journal etcd orders."""
    metrics.gauge(
        "rewound_node_leads", "1 if this node runs the controllers.", lambda: int(node.election.term() > 0)
    )
    metrics.counter(
        "rewound_node_terms_total", "How often it has begun to run them.", lambda: node.election.terms
    )
    metrics.counter(
        "rewound_node_watch_restarts_total",
        "How often it had to watch etcd again.",
        lambda: node.follower.restarts,
    )
    metrics.counter(
        "rewound_node_foreign_changes_total",
        "Changes in etcd by others than nodes that this node has settled.",
        lambda: node.foreign.settled,
    )
    metrics.gauge(
        "rewound_node_quarantined_keys",
        "Keys of etcd whose values cannot be read; the log and `rewound verify` name them.",
        lambda: len(node.foreign.quarantined),
    )
    metrics.gauge(
        "rewound_node_etcd_full",
        "1 while etcd refuses writes because its database has reached its quota (alarm NOSPACE).",
        lambda: int(bool(node.space.problem)),
    )


def meter_writes(metrics: Metrics, read: Callable[[], Distributions]) -> None:
    """Durations of writes, under Kubernetes' name: the transaction of a change corresponds to a request to etcd."""
    metrics.histogram(
        "etcd_request_duration_seconds",
        "Seconds that the transaction of a change took, until it was durable; each change has that of its batch.",
        read,
        WRITE_BOUNDS,
        *("operation", "type"),
    )


def _write_durations(store: Store) -> Distributions:
    """Durations by operation and type; types are named as in Go."""
    catalog, journal = store.registry.current, store.journal
    types = {}
    for type_name in catalog.stored_types():
        definition = catalog.storage(type_name)
        package = definition.group.partition(".")[0] or "core"
        name = "unstructured.Unstructured" if definition.is_custom else f"{package}.{definition.kind}"
        types[journal.type_id(type_name)] = f"*{name}"
    return summed(
        ((operation, types[type_id]), seconds, buckets)
        for (type_id, operation), (seconds, buckets) in store.committer.durations.read().items()
        if type_id in types
    )


def meter_controllers(metrics: Metrics, read: Callable[[], Mapping[str, WorkQueueStatistics]]) -> None:
    metrics.gauge(
        "workqueue_depth",
        "Keys that wait for a controller.",
        lambda: {name: now.ready for name, now in read().items()},
        "name",
    )
    metrics.counter(
        "workqueue_adds_total",
        "Keys that became ready for a controller.",
        lambda: {name: now.taken + now.ready for name, now in read().items()},
        "name",
    )
    metrics.counter(
        "workqueue_retries_total",
        "Keys that a controller failed on, and tried again.",
        lambda: {name: now.failures for name, now in read().items()},
        "name",
    )


def _scheduling(store: Store) -> SchedulerStatistics | None:
    for loop in store.loops:
        if loop.name == "scheduler":
            return cast("Scheduler", loop.controller).statistics()
    return None


def meter_scheduler(metrics: Metrics, read: Callable[[], SchedulerStatistics | None]) -> None:
    """Metrics of the scheduler; none if no scheduler runs."""

    def figures(part: Callable[[SchedulerStatistics], Value]) -> Callable[[], Value]:
        def figure() -> Value:
            now = read()
            return {} if now is None else part(now)

        return figure

    metrics.counter(
        "scheduler_schedule_attempts_total",
        "Attempts to schedule pods, by result: scheduled, unschedulable (no node does) or error.",
        figures(lambda now: now.attempts),
        "result",
        "profile",
    )
    metrics.gauge(
        "scheduler_pending_pods",
        "Pods that wait for a node, by the part of the queue: active, backoff or unschedulable.",
        figures(lambda now: now.pending),
        "queue",
    )
    metrics.counter(
        "scheduler_preemption_attempts_total",
        "Times that the scheduler looked for pods to preempt.",
        figures(lambda now: now.preemption_attempts),
    )
    metrics.counter(
        "scheduler_preemption_victims_total",
        "Pods that were preempted.",
        figures(lambda now: now.victims),
    )


def meter_journal(metrics: Metrics, read: Callable[[], Mapping[str, int]]) -> None:
    for name, text in (
        ("head", "Newest durable resourceVersion."),
        ("map_bytes", "Size of the LMDB map."),
        ("used_bytes", "Bytes of the LMDB map in use."),
        ("readers", "Reader slots taken."),
        ("unreadable_events", "Events that could not be read since the start; the log names them."),
    ):
        metrics.gauge(f"rewound_journal_{name}", text, partial(_number, read, name), across="writer")


def _number(read: Callable[[], Mapping[str, int]], name: str) -> int:
    return read()[name]


def meter_mailboxes(metrics: Metrics, read: Callable[[], Mapping[str, MailboxStatistics]]) -> None:
    """Metrics of mailboxes; there is one per resource type, so the number of label values is bounded."""
    metrics.gauge(
        "rewound_mailbox_waiting",
        "Writes waiting for their actor.",
        lambda: {name: now.waiting for name, now in read().items()},
        "type",
    )
    metrics.counter(
        "rewound_mailbox_received_total",
        "Writes received by an actor.",
        lambda: {name: now.received for name, now in read().items()},
        "type",
    )
    metrics.counter(
        "rewound_mailbox_refused_total",
        "Writes refused because the mailbox was full.",
        lambda: {name: now.refused for name, now in read().items()},
        "type",
    )


def meter_admission(metrics: Metrics, read: Callable[[], CallStatistics]) -> None:
    metrics.gauge(
        "rewound_admission_waiting",
        "Writes waiting for an asynchronous admission plugin.",
        lambda: read().running,
    )
    metrics.counter(
        "rewound_admission_calls_total", "Calls of asynchronous admission plugins.", lambda: read().started
    )
    metrics.counter(
        "rewound_admission_refused_total",
        "Writes refused because too many were waiting for such plugins.",
        lambda: read().refused,
    )


def meter_admission_timings(metrics: Metrics, timings: Timings) -> None:
    """Timings of admission; a write to which no plugin applies is not counted."""
    metrics.histogram(
        "apiserver_admission_step_admission_duration_seconds",
        "Time of the mutating (admit) and validating (validate) plugins of a write together.",
        timings.phases,
        TIMING_BOUNDS,
        *("type", "operation", "rejected"),
    )
    metrics.histogram(
        "apiserver_admission_controller_admission_duration_seconds",
        "Time of one admission plugin.",
        timings.plugins,
        TIMING_BOUNDS,
        *("name", "type", "operation", "rejected"),
    )


def meter_conversions(metrics: Metrics, timings: ConversionTimings) -> None:
    metrics.histogram(
        "apiserver_crd_webhook_conversion_duration_seconds",
        "Time of a call of a conversion webhook.",
        timings.durations,
        CONVERSION_BOUNDS,
        *("crd_name", "from_version", "to_version", "succeeded"),
    )


def meter_authorization(metrics: Metrics, statistics: AuthorizationStatistics) -> None:
    def decisions() -> Mapping[tuple[str, ...], float]:
        return {
            (type_, name, decision): count
            for (type_, name), counts in statistics.decisions.items()
            for decision, count in zip(("denied", "allowed"), counts, strict=True)
            if count
        }

    def of_conditions(
        read: Callable[[WebhookStatistics], int],
    ) -> Callable[[], Mapping[tuple[str, ...], float]]:
        return lambda: {
            ("Webhook", name): read(one) for name, one in statistics.webhooks.items() if read(one)
        }

    metrics.counter(
        "apiserver_authorization_decisions_total",
        "Requests that an authorizer allowed or denied.",
        decisions,
        *("type", "name", "decision"),
    )
    metrics.counter(
        "apiserver_authorization_match_condition_evaluation_errors_total",
        "Requests for which match conditions of an authorization webhook could not be evaluated.",
        of_conditions(lambda one: one.condition_errors),
        *("type", "name"),
    )
    metrics.counter(
        "apiserver_authorization_match_condition_exclusions_total",
        "Requests for which an authorization webhook was not asked because of its match conditions.",
        of_conditions(lambda one: one.exclusions),
        *("type", "name"),
    )
    metrics.histogram(
        "apiserver_authorization_match_condition_evaluation_seconds",
        "Time to evaluate the match conditions of an authorization webhook.",
        lambda: {
            ("Webhook", name): (one.conditions.seconds, tuple(one.conditions.counts))
            for name, one in statistics.webhooks.items()
            if any(one.conditions.counts)
        },
        CONDITION_BOUNDS,
        *("type", "name"),
    )
    metrics.counter(
        "apiserver_authorization_webhook_evaluations_total",
        "Calls of authorization webhooks, each try counted.",
        lambda: statistics.by_webhook(
            lambda one: {result: sum(calls.counts) for result, calls in one.calls.items()}
        ),
        *("name", "result"),
    )
    metrics.counter(
        "apiserver_authorization_webhook_evaluations_fail_open_total",
        "Requests on which an authorization webhook has no opinion because its call failed.",
        lambda: statistics.by_webhook(lambda one: one.failures_open),
        *("name", "result"),
    )
    metrics.histogram(
        "apiserver_authorization_webhook_duration_seconds",
        "Time of a call of an authorization webhook.",
        lambda: {
            (name, result): (calls.seconds, tuple(calls.counts))
            for name, one in statistics.webhooks.items()
            for result, calls in one.calls.items()
        },
        CALL_BOUNDS,
        *("name", "result"),
    )
    if statistics.reloads is not None:
        meter_reloads(metrics, "authorization", statistics.reloads)


def meter_reloads(metrics: Metrics, what: str, reloads: Reloads) -> None:
    """The metrics of a configuration file that is read again when it changes."""
    server = server_id_hash()
    metrics.counter(
        f"apiserver_{what}_config_controller_automatic_reloads_total",
        f"How often the configuration of {what} was read again, by result.",
        lambda: {(result, server): count for result, count in reloads.counts.items()},
        *("status", "apiserver_id_hash"),
    )
    metrics.gauge(
        f"apiserver_{what}_config_controller_automatic_reload_last_timestamp_seconds",
        f"When the configuration of {what} was last read again, by result.",
        lambda: {(result, server): at for result, at in reloads.times.items()},
        *("status", "apiserver_id_hash"),
        across="max",
    )
    metrics.gauge(
        f"apiserver_{what}_config_controller_last_config_info",
        f"The hash of the configuration of {what} that is in force.",
        lambda: {(server, reloads.hash): 1},
        *("apiserver_id_hash", "hash"),
        across="max",
    )


def meter_files(metrics: Metrics, files: Sequence[FollowedFiles]) -> None:
    """The metrics of other files that are read again when they change; more may join later."""
    metrics.counter(
        "rewound_file_reloads_total",
        "How often files of a flag were read again because they changed, by result.",
        lambda: {(one.flag, result): count for one in files for result, count in one.counts.items()},
        *("flag", "result"),
    )
    metrics.gauge(
        "rewound_file_outdated",
        "1 while the files of a flag have changed and cannot be used, so that what was read before is in force.",
        lambda: {one.flag: int(one.is_outdated) for one in files},
        "flag",
        across="max",
    )


def meter_certificate(metrics: Metrics, expires: Callable[[], float]) -> None:
    metrics.gauge(
        "rewound_serving_certificate_expiration_timestamp_seconds",
        "When the serving certificate ends, in seconds since 1970.",
        expires,
        across="min",
    )


def server_id_hash() -> str:
    """The hash of the name that Kubernetes gives an API server by the name of its host."""
    digest = sha256(socket.gethostname().encode()).digest()[:16]
    identity = f"apiserver-{b32encode(digest).decode().rstrip('=').lower()}"
    return f"sha256:{sha256(identity.encode()).hexdigest()}"


def meter_webhooks(metrics: Metrics, timings: WebhookTimings) -> None:
    metrics.counter(
        "apiserver_admission_webhook_rejection_count",
        "Writes that admission webhooks refused, or refused because a webhook failed.",
        timings.rejections,
        *("error_type", "name", "operation", "rejection_code", "type"),
    )
    metrics.counter(
        "apiserver_admission_webhook_fail_open_count",
        "Failures of admission webhooks that failurePolicy Ignore passed over.",
        timings.failed_open,
        *("name", "type"),
    )
    metrics.counter(
        "apiserver_admission_webhook_request_total",
        "Calls of admission webhooks; the code is 200 or that of the refusal.",
        timings.requests,
        *("name", "type", "operation", "code", "rejected"),
    )
    metrics.histogram(
        "apiserver_admission_webhook_admission_duration_seconds",
        "Time of a call of an admission webhook.",
        timings.durations,
        TIMING_BOUNDS,
        *("name", "type", "operation", "rejected"),
    )


def meter_rules(metrics: Metrics) -> None:
    metrics.histogram(
        "apiserver_cel_compilation_duration_seconds",
        "Time to compile the rules of one part of a schema of a custom kind.",
        COMPILATIONS.read,
        RULE_BOUNDS,
    )
    metrics.histogram(
        "apiserver_cel_evaluation_duration_seconds",
        "Time to evaluate the rules of a custom object.",
        EVALUATIONS.read,
        RULE_BOUNDS,
    )


def meter_policies(metrics: Metrics, plugin: ValidatingAdmissionPolicy) -> None:
    checks = plugin.checks
    if plugin.counts_policies:
        metrics.counter(
            "apiserver_validating_admission_policy_definition_total",
            "Validating policies that the server has seen since its start (until 1.29).",
            lambda: {("active", "deny"): seen} if (seen := plugin.policies_seen) else {},
            *("state", "enforcement_action"),
        )
    metrics.counter(
        "apiserver_validating_admission_policy_check_total",
        "Validations of policies that were not true, by what became of the write.",
        checks.counts,
        *checks.labels,
    )
    metrics.histogram(
        "apiserver_validating_admission_policy_check_duration_seconds",
        "Time of the expression of a validation that was not true.",
        checks.durations,
        POLICY_BOUNDS,
        *checks.labels,
    )


def meter_conditions(metrics: Metrics, timings: ConditionTimings, features: frozenset[str]) -> None:
    if CONDITIONS_BY_OPERATION not in features:
        metrics.counter(
            "apiserver_admission_admission_match_condition_evaluation_errors_total",
            "Match conditions of webhooks and policies that had no value (1.27).",
            lambda: _without_operation(timings.errors()),
            *("name", "type"),
        )
        return
    labels = ("name", "kind", "type", "operation")
    metrics.counter(
        "apiserver_admission_match_condition_evaluation_errors_total",
        "Match conditions of webhooks and policies that had no value.",
        timings.errors,
        *labels,
    )
    metrics.counter(
        "apiserver_admission_match_condition_exclusions_total",
        "Writes for which match conditions excluded a webhook or policy.",
        timings.exclusions,
        *labels,
    )
    metrics.histogram(
        "apiserver_admission_match_condition_evaluation_seconds",
        "Time of evaluations of match conditions that excluded a webhook or policy, or failed.",
        timings.durations,
        CONDITION_BOUNDS,
        *labels,
    )


def _without_operation(found: Mapping[tuple[str, ...], float]) -> dict[tuple[str, str], float]:
    """As 1.27 counts: mutating webhooks are validating there, too."""
    merged: dict[tuple[str, str], float] = {}
    for (name, kind, *_), count in found.items():
        key = name, "validatingadmissionpolicy" if kind == "policy" else "validating"
        merged[key] = merged.get(key, 0) + count
    return merged


def meter_mutations(metrics: Metrics, checks: MutationChecks) -> None:
    metrics.counter(
        "apiserver_mutating_admission_policy_check_total",
        "Mutations of policies, by their errors.",
        checks.counts,
        *checks.labels,
    )
    metrics.histogram(
        "apiserver_mutating_admission_policy_check_duration_seconds",
        "Time of a mutation of a policy.",
        checks.durations,
        POLICY_BOUNDS,
        *checks.labels,
    )


def meter_pod_security(metrics: Metrics, evaluations: Evaluations) -> None:
    def errors() -> Mapping[tuple[str, ...], int]:
        return {("false", *key): count for key, count in evaluations.errors.read().items()}

    of_request = ("request_operation", "resource", "subresource")
    metrics.counter(
        "pod_security_evaluations_total",
        "Evaluations of pods and pod templates, without those that are exempt.",
        lambda: {tuple(key): count for key, count in evaluations.evaluations.read().items()},
        "decision",
        "policy_level",
        "policy_version",
        "mode",
        *of_request,
    )
    metrics.counter(
        "pod_security_exemptions_total",
        "Requests that are exempt by namespace, user or runtime class.",
        lambda: {tuple(key): count for key, count in evaluations.exemptions.read().items()},
        *of_request,
    )
    metrics.counter(
        "pod_security_errors_total",
        "Evaluations in namespaces whose labels are not a valid policy: restricted in the latest version was enforced.",
        errors,
        "fatal",
        *of_request,
    )


def meter_large_work(metrics: Metrics, read: Callable[[], LargeWorkStatistics]) -> None:
    metrics.gauge(
        "rewound_large_work_waiting",
        "Pieces of work on large objects that wait for the worker thread.",
        lambda: read().waiting,
    )
    metrics.counter(
        "rewound_large_work_started_total",
        "Pieces of work on large objects: bodies to decode, commands to decide.",
        lambda: read().started,
    )
    metrics.counter(
        "rewound_large_work_refused_total",
        "Pieces of work on large objects refused because too many were waiting.",
        lambda: read().refused,
    )


def meter_watches(
    metrics: Metrics,
    read: Callable[[], Mapping[str, WatchStatistics]],
    running: Callable[[], Mapping[tuple[str, ...], int]],
    sent: Callable[[], Mapping[tuple[str, ...], tuple[float, tuple[int, ...]]]],
) -> None:
    """Metrics of watches; the labels are resources and kinds, so the number of their values is bounded."""
    metrics.gauge(
        "apiserver_longrunning_requests",
        "Running watches, and logs, exec, attach, portforward and proxied requests that are forwarded.",
        running,
        *("verb", "group", "version", "resource", "subresource", "scope", "component"),
    )
    metrics.counter(
        "apiserver_watch_events_total",
        "Events that were sent to watchers.",
        lambda: {kind: sum(buckets) for kind, (_, buckets) in sent().items()},
        *("group", "version", "kind"),
    )
    metrics.histogram(
        "apiserver_watch_events_sizes",
        "Bytes of events that were sent to watchers.",
        sent,
        EVENT_SIZES,
        *("group", "version", "kind"),
    )

    def of(field: str) -> Callable[[], Mapping[str, float]]:
        return lambda: {name: getattr(now, field) for name, now in read().items()}

    for name, text, field in (
        ("rewound_watch_groups", "Groups of watchers that get the same bytes.", "groups"),
        ("rewound_watchers_sweeping", "Watchers that have every event.", "sweeping"),
        ("rewound_watchers_lagging", "Watchers that are catching up, or do not read.", "lagging"),
    ):
        metrics.gauge(name, text, of(field), "type")
    for name, text, field in (
        (
            "rewound_watch_selectors_tried_total",
            "Selectors that events were compared with, once per group.",
            "tried",
        ),
        ("rewound_watch_groups_woken_total", "Groups that commits affected.", "woken"),
        ("rewound_watch_frames_total", "Events filtered, encoded and framed, once per group.", "frames"),
        (
            "rewound_watch_deliveries_total",
            "Events that a watcher's connection accepted completely.",
            "deliveries",
        ),
        ("rewound_watch_lagged_total", "Times that a watcher fell behind.", "lagged"),
        ("rewound_watch_expired_total", "Watchers that fell behind the watch history.", "expired"),
    ):
        metrics.counter(name, text, of(field), "type")


def meter_api_services(metrics: Metrics, api_services: ApiServices) -> None:
    metrics.gauge(
        "aggregator_unavailable_apiservice",
        "Whether the server behind an APIService is unavailable.",
        lambda: {one.name: int(not one.available) for one in api_services.stored()},
        "name",
        across="writer",
    )
