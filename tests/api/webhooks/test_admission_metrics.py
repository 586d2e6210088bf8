"""Metrics of admission: durations by phase, plugin and webhook, calls, refusals and ignored failures."""

from __future__ import annotations

from typing import Any

from rewound.actors.admission.timings import (
    BOUNDS,
    MAX_SERIES,
    NO_ERROR,
    ConditionTimings,
    Histogram,
    Timings,
    WebhookTimings,
)
from tests.api.webhooks.hooking import DENY, hooking
from tests.gateway.api import Api
from tests.gateway.outgoing.https_peer import Reply

PREFIX = "apiserver_admission"


async def metric(api: Api, name: str, *labels: str) -> float:
    """The value of the series that has all these labels (`name="value"`); 0 if there is none."""
    text = (await api.ask("GET", "/metrics")).text
    found = [
        line
        for line in text.splitlines()
        if line.startswith(f"{PREFIX}_{name}{{") and all(label in line for label in labels)
    ]
    assert len(found) <= 1, found
    return float(found[0].rpartition(" ")[2]) if found else 0.0


async def test_durations_of_plugins_and_phases() -> None:
    async with hooking() as hooks:
        phases, plugins = (f"{one}_admission_duration_seconds_count" for one in ("step", "controller"))
        series = (
            (phases, 'type="admit"', 'rejected="false"'),
            (phases, 'type="admit"', 'rejected="true"'),
            (plugins, 'name="NamespaceLifecycle"', 'rejected="false"'),
            (plugins, 'name="NamespaceLifecycle"', 'rejected="true"'),
        )

        async def counts() -> list[float]:
            return [await metric(hooks.api, name, *labels, 'operation="CREATE"') for name, *labels in series]

        before = await counts()
        (await hooks.create("a")).expect(201)
        missing = "/api/v1/namespaces/none/configmaps"
        (await hooks.api.ask("POST", missing, {"metadata": {"name": "a"}})).expect(404)
        after = await counts()
        assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1, 1, 1]


async def test_calls_of_webhooks() -> None:
    async with hooking(deny={"allowed": False, "status": {"code": 999}}, fail=lambda _: Reply(500)) as hooks:
        await hooks.configure("mutating", hooks.hook("m.example.com"))
        await hooks.configure("validating", hooks.hook("v.example.com", "/deny"))
        (await hooks.create("a")).expect(999)
        api = hooks.api
        admitted = ('name="m.example.com"', 'operation="CREATE"', 'type="admit"', 'rejected="false"')
        denied = ('name="v.example.com"', 'operation="CREATE"', 'type="validating"', 'rejected="true"')
        assert await metric(api, "webhook_request_total", *admitted, 'code="200"') == 1
        assert await metric(api, "webhook_request_total", *denied, 'code="600"') == 1
        assert await metric(api, "webhook_admission_duration_seconds_count", *admitted) == 1
        assert await metric(api, "webhook_admission_duration_seconds_count", *denied) == 1
        rejection = ('rejection_code="600"', 'error_type="no_error"', 'type="validating"')
        assert await metric(api, "webhook_rejection_count", *rejection) == 1
        plugins = "controller_admission_duration_seconds_count"
        assert await metric(api, plugins, 'name="MutatingAdmissionWebhook"', 'rejected="false"') == 1
        assert await metric(api, plugins, 'name="ValidatingAdmissionWebhook"', 'rejected="true"') == 1
        phases = "step_admission_duration_seconds_count"
        assert await metric(api, phases, 'type="validate"', 'operation="CREATE"', 'rejected="true"') == 1


async def test_failure_that_is_passed_over_and_patch_that_cannot_be_applied() -> None:
    patch = {"patchType": "JSONPatch", "patch": "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL25vbmUifV0="}
    async with hooking(fail=lambda _: Reply(500), patch=patch) as hooks:
        await hooks.configure("mutating", hooks.hook("open.example.com", "/fail", failurePolicy="Ignore"))
        (await hooks.create("a")).expect(201)
        api = hooks.api
        assert await metric(api, "webhook_fail_open_count", 'name="open.example.com"', 'type="admit"') == 1
        assert await metric(api, "webhook_request_total", 'code="500"', 'rejected="false"') == 1
        assert await metric(api, "webhook_rejection_count", 'name="open.example.com"') == 0
        await hooks.remove("mutating")
        await hooks.configure("mutating", hooks.hook("patch.example.com", "/patch"))
        (await hooks.create("b")).expect(500)
        assert await metric(api, "webhook_request_total", 'name="patch.example.com"', 'code="0"') == 1
        rejection = ('name="patch.example.com"', 'error_type="apiserver_internal_error"')
        assert await metric(api, "webhook_rejection_count", *rejection) == 1


async def test_denial_counts_with_its_code() -> None:
    async with hooking(deny=DENY) as hooks:
        await hooks.configure("validating", hooks.hook("v.example.com", "/deny"))
        (await hooks.create("a")).expect(400)
        assert await metric(hooks.api, "webhook_rejection_count", 'rejection_code="400"') == 1


async def test_codes_of_calls_that_failed() -> None:
    """400 if there is no review, 503 if the review is invalid, otherwise the status in the response."""
    responses: dict[str, tuple[Any, int]] = {
        "garbage": (lambda _: Reply(body=b"no review"), 400),
        "types": ({"allowed": "yes"}, 400),
        "kind": (lambda _: Reply(body=b'{"apiVersion": "v1", "kind": "Pod"}'), 400),
        "status": (lambda _: Reply(body=b'{"apiVersion": "v1", "kind": "Status", "code": 418}'), 400),
        "gone": (lambda _: None, 400),
        "uid": ({"uid": "another"}, 503),
        "absent": (lambda _: Reply(body=b"{}"), 503),
        "error": (lambda _: Reply(502), 502),
    }
    async with hooking(**{name: respond for name, (respond, _) in responses.items()}) as hooks:
        for name, (_, code) in responses.items():
            await hooks.configure("validating", hooks.hook(f"{name}.example.com", f"/{name}"))
            (await hooks.create("a")).expect(500)
            labels = f'name="{name}.example.com"', 'error_type="calling_webhook_error"'
            counted = await metric(hooks.api, "webhook_rejection_count", *labels, f'rejection_code="{code}"')
            assert counted == 1, name
            await hooks.remove("validating")


def test_durations_fall_into_the_buckets_of_their_bounds() -> None:
    histogram = Histogram()
    for seconds in (0.0, BOUNDS[0], 0.006, 0.025, 2.5, 100.0):
        histogram.add(seconds)
    assert histogram.counts() == (2, 2, 0, 0, 0, 1, 1)


def test_timings_of_a_thread_are_read_with_the_others() -> None:
    timings = Timings()
    other = timings.for_thread()
    for one in (timings, other):
        one.plugin("P", "admit", "CREATE").passed.add(0.001)
    assert timings.plugins() == {("P", "admit", "CREATE", "false"): (0.002, (2, 0, 0, 0, 0, 0, 0))}


def test_number_of_series_is_bounded() -> None:
    timings = WebhookTimings(ConditionTimings())
    for number in range(2 * MAX_SERIES):
        timings.called("admit", f"h{number}", "CREATE", 200, rejected=False, seconds=0.0)
        timings.ignored("admit", f"h{number}")
        timings.refused("admit", f"h{number}", "CREATE", NO_ERROR, 1000)
    for counts in (timings.requests(), timings.failed_open(), timings.rejections()):
        assert len(counts) == MAX_SERIES + 1 and sum(counts.values()) == 2 * MAX_SERIES
    durations = timings.durations()
    assert len(durations) == MAX_SERIES + 1
    assert durations["other", "admit", "CREATE", "false"][1][0] == MAX_SERIES
    assert {code for _, _, _, code, _ in timings.rejections()} == {"600", "0"}
