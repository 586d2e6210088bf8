"""Jobs run pods to completion: counts, indexes, failures and backoff, suspension, deadlines and deletion."""

from __future__ import annotations

from pathlib import Path

import pytest
from trio.testing import MockClock

from rewound.actors.messages import Object
from rewound.actors.versions.features import FAILURE_POLICY, Release, choose_release
from rewound.actors.workloads import controller, jobs
from rewound.actors.workloads.jobs import EarlyBackoff, policy_action
from tests.actors.workloads.bench import Bench, open_bench, pod_template
from tests.cases import cases

JOBS, TRACKING = "jobs.batch", "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


def job(phase: str = "Running", restarts: str = "Never", **spec: object) -> Object:
    template = pod_template({}, phase=phase)
    template["spec"]["restartPolicy"] = restarts
    return {"metadata": {"name": "work"}, "spec": {"template": template, **spec}}


def status_of(bench: Bench) -> Object:
    """The status, with the conditions by type and without times."""
    status = dict(bench.get(JOBS, "work")["status"])
    conditions = {one["type"]: (one["status"], one.get("reason")) for one in status.pop("conditions", ())}
    times = ("startTime", "completionTime")
    return {part: value for part, value in status.items() if part not in times} | conditions


async def set_phase(bench: Bench, name: str, phase: str) -> None:
    await bench.patch("pods", name, {"metadata": {"annotations": {"sim/phase": phase}}})


def tracked(bench: Bench) -> list[str]:
    return [one["metadata"]["name"] for one in bench.all("pods") if one["metadata"].get("finalizers")]


async def test_a_job_is_complete_when_enough_pods_have_succeeded(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job(completions=3, parallelism=2))
        await bench.rest()
        assert status_of(bench) == {"active": 2, "ready": 2, "uncountedTerminatedPods": {}}
        assert tracked(bench) == bench.names("pods")
        first, _ = bench.names("pods")
        await set_phase(bench, first, "Succeeded")
        await bench.rest()
        expected = {"active": 2, "ready": 2, "succeeded": 1, "uncountedTerminatedPods": {}}
        assert status_of(bench) == expected and first not in tracked(bench)
        for name in bench.names("pods"):
            await set_phase(bench, name, "Succeeded")
        await bench.rest()
        expected = {"ready": 0, "succeeded": 3, "uncountedTerminatedPods": {}, "Complete": ("True", None)}
        assert status_of(bench) == expected and not tracked(bench)
        assert "completionTime" in bench.get(JOBS, "work")["status"]
        created = [("SuccessfulCreate", f"Created pod: {name}") for name in bench.names("pods")]
        assert sorted(bench.events("work")) == sorted([*created, ("Completed", "Job completed")])


async def test_a_job_without_completions_ends_with_the_pods_it_had_at_the_first_success(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job(parallelism=2))
        await bench.rest()
        first, second = bench.names("pods")
        await set_phase(bench, first, "Succeeded")
        await bench.rest(3600)
        assert status_of(bench)["active"] == 1 and len(bench.names("pods")) == 2
        await set_phase(bench, second, "Failed")
        await bench.rest()
        found = status_of(bench)
        assert (found["succeeded"], found["failed"], found["Complete"]) == (1, 1, ("True", None))


async def test_indexed_pods_have_their_index_and_the_status_has_intervals(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job(completions=6, parallelism=5, completionMode="Indexed"))
        await bench.rest()
        pods = {one["metadata"]["annotations"][INDEX]: one for one in bench.all("pods")}
        assert sorted(pods) == ["0", "1", "2", "3", "4"]
        third = pods["2"]
        assert third["metadata"]["generateName"] == "work-2-" and third["spec"]["hostname"] == "work-2"
        reference = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{INDEX}']"}
        variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": reference}}
        assert third["spec"]["containers"][0]["env"] == [variable]
        for index in "013":
            await set_phase(bench, pods[index]["metadata"]["name"], "Succeeded")
        await bench.rest()
        found = status_of(bench)
        assert (found["completedIndexes"], found["succeeded"], found["active"]) == ("0,1,3", 3, 3)
        for name in bench.names("pods"):
            await set_phase(bench, name, "Succeeded")
        await bench.rest()
        assert status_of(bench)["completedIndexes"] == "0-5" and "Complete" in status_of(bench)


async def test_a_second_pod_of_an_index_is_removed_without_counting(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job(completions=2, parallelism=2, completionMode="Indexed"))
        await bench.rest()
        for index in ("1", "7"):
            copy = bench.all("pods")[0]
            metadata = {part: copy["metadata"][part] for part in ("labels", "ownerReferences", "finalizers")}
            metadata |= {"name": f"more-{index}", "annotations": {INDEX: index}}
            await bench.create("pods", {"metadata": metadata, "spec": pod_template({})["spec"]})
        await bench.rest()
        assert sorted(one["metadata"]["annotations"][INDEX] for one in bench.all("pods")) == ["0", "1"]
        assert status_of(bench) == {"active": 2, "ready": 2, "uncountedTerminatedPods": {}}


async def test_pauses_between_failures_double_and_a_success_resets_them(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job(completions=9, backoffLimit=9))
        await bench.rest(5)

        async def pause_after(phase: str) -> int:
            """The seconds until another pod runs after this one has ended."""
            (running,) = (one for one in bench.all("pods") if one["status"]["phase"] == "Running")
            await set_phase(bench, running["metadata"]["name"], phase)
            await bench.rest()
            seconds = 0
            while not status_of(bench).get("active"):
                await bench.rest(1)
                seconds += 1
            await bench.rest(5)
            return seconds

        assert [await pause_after("Failed") for _ in range(4)] == [0, 10, 20, 40]
        assert await pause_after("Succeeded") == 0
        assert [await pause_after("Failed") for _ in range(2)] == [0, 10]


def test_pauses_have_a_limit() -> None:
    backoff = EarlyBackoff()
    for _ in range(40):
        backoff.failed(1000.0)
    assert backoff.until == 1360.0


async def test_pods_that_fail_at_once_are_replaced_every_second_up_to_the_limit(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job("Failed", backoffLimit=4))
        await bench.rest()
        assert len(bench.names("pods")) == 2
        await bench.rest(1)
        assert len(bench.names("pods")) == 3
        await bench.rest(5)
        assert len(bench.names("pods")) == 5 and not tracked(bench)
        found = status_of(bench)
        assert (found["failed"], found["Failed"]) == (5, ("True", "BackoffLimitExceeded"))
        assert bench.events("work")[-1] == (
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        )


async def test_a_job_that_fails_deletes_its_other_pods_and_counts_them_as_failed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job(completions=3, parallelism=3, backoffLimit=0))
        await bench.rest()
        first = bench.names("pods")[0]
        await set_phase(bench, first, "Failed")
        await bench.rest()
        found = status_of(bench)
        assert (found["failed"], found["Failed"]) == (3, ("True", "BackoffLimitExceeded"))
        assert bench.names("pods") == [first]
        assert sum(reason == "SuccessfulDelete" for reason, _ in bench.events("work")) == 2


async def test_restarts_of_containers_count_against_the_limit(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job(restarts="OnFailure", backoffLimit=2))
        await bench.rest()
        (name,) = bench.names("pods")
        restarted = {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 1}
        await bench.patch("pods", name, {"status": {"containerStatuses": [restarted]}}, "status")
        await bench.rest()
        assert "Failed" not in status_of(bench)
        restarted["restartCount"] = 2
        await bench.patch("pods", name, {"status": {"containerStatuses": [restarted]}}, "status")
        await bench.rest()
        assert status_of(bench)["Failed"] == ("True", "BackoffLimitExceeded")


async def test_a_deleted_pod_counts_as_failed_and_is_replaced_at_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job())
        for count in (1, 2, 3):
            await bench.rest()
            await bench.delete("pods", *bench.names("pods"))
            await bench.rest()
            assert (status_of(bench)["failed"], status_of(bench)["active"]) == (count, 1)


async def test_a_suspended_job_has_no_pods_and_a_deadline_counts_from_its_resumption(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job(suspend=True, completions=2, parallelism=2, activeDeadlineSeconds=60))
        await bench.rest(600)
        assert status_of(bench) == {
            "ready": 0,
            "uncountedTerminatedPods": {},
            "Suspended": ("True", "JobSuspended"),
        }
        await bench.patch(JOBS, "work", {"spec": {"suspend": False}})
        await bench.rest(30)
        assert status_of(bench)["ready"] == 2
        await bench.patch(JOBS, "work", {"spec": {"suspend": True}})
        await bench.rest()
        assert not bench.names("pods") and "failed" not in status_of(bench)
        await bench.patch(JOBS, "work", {"spec": {"suspend": False}})
        await bench.rest(31)
        assert "Failed" not in status_of(bench)
        await bench.rest(30)
        assert status_of(bench)["Failed"] == ("True", "DeadlineExceeded")
        reasons = [reason for reason, _ in bench.events("work") if not reason.startswith("Successful")]
        assert sorted(reasons) == ["DeadlineExceeded", "Resumed", "Suspended"]


async def test_parallelism_follows_the_spec(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job(completions=9, parallelism=3))
        for wanted in (3, 1, 0, 4):
            await bench.patch(JOBS, "work", {"spec": {"parallelism": wanted}})
            await bench.rest()
            assert len(bench.names("pods")) == wanted == status_of(bench).get("active", 0)
        assert "failed" not in status_of(bench)


async def test_pods_of_a_deleted_job_lose_the_finalizer(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "job", "garbagecollector") as bench:
        await bench.create(JOBS, job(completions=2, parallelism=2))
        await bench.rest()
        await bench.delete(JOBS, "work", "Orphan")
        await bench.rest(1)  # the garbage collector may have to try again
        assert len(bench.names("pods")) == 2 and not tracked(bench)
        for policy in ("Background", "Foreground"):
            await bench.create(JOBS, job(completions=2, parallelism=2))
            await bench.rest()
            await bench.delete(JOBS, "work", policy)
            await bench.rest(1)
            assert bench.find(JOBS, "work") is None and len(bench.names("pods")) == 2


async def test_pods_that_match_a_manual_selector_are_adopted_and_released(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        template = pod_template({"team": "a"})
        await bench.create(
            "pods", {"metadata": {"name": "old", **template["metadata"]}, "spec": template["spec"]}
        )
        new = job(manualSelector=True, selector={"matchLabels": {"team": "a"}}, completions=5)
        new["spec"]["template"]["metadata"]["labels"] = {"team": "a"}
        await bench.create(JOBS, new)
        await bench.rest()
        assert bench.names("pods") == tracked(bench) == ["old"]
        await bench.patch("pods", "old", {"metadata": {"labels": {"team": "b"}}})
        await bench.rest()
        assert len(bench.names("pods")) == 2 and "old" not in tracked(bench)
        assert "ownerReferences" not in bench.get("pods", "old")["metadata"]
        assert "failed" not in status_of(bench)


async def test_pods_that_are_refused_are_reported_and_tried_again(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        await bench.create("resourcequotas", {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}})
        await bench.rest()
        await bench.create(JOBS, job(completions=3, parallelism=3))
        await bench.rest(1)
        assert status_of(bench)["active"] == 1
        assert any(reason == "FailedCreate" for reason, _ in bench.events("work"))
        await bench.patch("resourcequotas", "few", {"spec": {"hard": {"pods": "9"}}})
        await bench.rest(60)
        assert status_of(bench)["active"] == 3


async def test_a_job_with_many_pods_is_looked_at_ten_times_a_second(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "MANY", 3)
    async with open_bench(tmp_path, "job") as bench:
        await bench.create(JOBS, job(completions=9, parallelism=3))
        await bench.rest(10)
        first, second, _ = bench.names("pods")
        await set_phase(bench, first, "Succeeded")
        await bench.rest()
        await set_phase(bench, second, "Succeeded")
        await bench.rest()
        assert "succeeded" not in status_of(bench)
        await bench.rest(0.2)
        assert status_of(bench)["succeeded"] == 2
        await bench.rest(0.2)
        assert status_of(bench)["ready"] == 3


def ended_pod(code: int, *conditions: str) -> Object:
    status = {
        "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}],
        "conditions": [{"type": one, "status": "True"} for one in conditions],
    }
    return {"metadata": {"namespace": "default", "name": "p"}, "status": status}


def exit_codes(action: str, operator: str, *values: int, container: str | None = None) -> Object:
    codes = {"containerName": container, "operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": codes, "onPodConditions": None}


@cases(
    ("rules", "pod", "action", "message"),
    [
        ([], ended_pod(1), "Count", ""),
        ([exit_codes("Ignore", "In", 7)], ended_pod(7), "Ignore", None),
        ([exit_codes("Ignore", "In", 7, container="other")], ended_pod(7), "Count", ""),
        ([exit_codes("Ignore", "NotIn", 7), exit_codes("Count", "In", 7)], ended_pod(7), "Count", None),
        ([exit_codes("Ignore", "NotIn", 7)], ended_pod(0), "Count", ""),
        (
            [exit_codes("Ignore", "In", 1), exit_codes("FailJob", "In", 7)],
            ended_pod(7),
            "FailJob",
            "Container main for pod default/p failed with exit code 7 matching FailJob rule at index 1",
        ),
        (
            [{"action": "FailJob", "onPodConditions": [{"type": "Bad", "status": "True"}]}],
            ended_pod(1, "Other", "Bad"),
            "FailJob",
            "Pod default/p has condition Bad matching FailJob rule at index 0",
        ),
    ],
)
def test_policies_for_failed_pods(rules: list[Object], pod: Object, action: str, message: str | None) -> None:
    found, text = policy_action({"rules": rules}, pod)
    assert found == action and (message is None or text == message)


async def test_policy_looks_at_a_failed_pod_once_in_a_pass(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def counted(policy: Object, pod: Object) -> tuple[str, str]:
        seen.append(pod["metadata"]["name"])
        return policy_action(policy, pod)

    monkeypatch.setattr(jobs, "policy_action", counted)
    policy = {"rules": [exit_codes("FailJob", "In", 7)]}
    async with open_bench(tmp_path, "job", release=Release(features=frozenset({FAILURE_POLICY}))) as bench:
        await bench.create(JOBS, job(backoffLimit=5, podFailurePolicy=policy))
        await bench.rest(10)
        (first,) = bench.names("pods")
        await set_phase(bench, first, "Failed")
        await bench.rest(60)
        seen.clear()
        await bench.patch(JOBS, "work", {"metadata": {"labels": {"look": "again"}}})
        await bench.rest()
        assert seen == [first]


@pytest.mark.parametrize("stop", [2, 3, 4, 6, 9, 14])
async def test_a_kill_before_any_write_ends_in_the_same_world(
    tmp_path: Path, autojump_clock: MockClock, stop: int
) -> None:
    async with open_bench(tmp_path, "job") as bench:
        bench.kill_before(stop, "job-controller")
        await bench.create(JOBS, job("Succeeded", completions=4, parallelism=2, backoffLimit=9))
        await bench.rest(60)
    async with open_bench(tmp_path, "job") as bench:
        await bench.rest(60)
        expected = {"ready": 0, "succeeded": 4, "uncountedTerminatedPods": {}, "Complete": ("True", None)}
        assert status_of(bench) == expected
        assert len(bench.names("pods")) == 4 and not tracked(bench)


NEWEST = choose_release("1.36")


async def test_job_of_today_ends_in_two_steps(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "job", release=NEWEST) as bench:
        await bench.create(JOBS, job("Succeeded"))
        await bench.rest()
        reached = ("True", "CompletionsReached")
        assert status_of(bench) == {
            "ready": 0,
            "terminating": 0,
            "succeeded": 1,
            "uncountedTerminatedPods": {},
            "SuccessCriteriaMet": reached,
            "Complete": reached,
        }


async def test_failed_job_of_today_waits_for_its_terminating_pods(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job", release=NEWEST) as bench:
        await bench.create(JOBS, job(activeDeadlineSeconds=60, parallelism=2))
        await bench.rest()
        (first, _) = bench.names("pods")
        await bench.patch("pods", first, {"metadata": {"finalizers": [TRACKING, "test/holds"]}})
        await bench.rest(61)
        target, found = ("True", "DeadlineExceeded"), status_of(bench)
        assert (found["FailureTarget"], found["terminating"], "Failed" in found) == (target, 1, False)
        assert (found["ready"], found["failed"], "active" in found) == (0, 2, False)
        await bench.patch("pods", first, {"metadata": {"finalizers": None}})
        await bench.rest()
        found = status_of(bench)
        assert (found["Failed"], found["FailureTarget"], found["terminating"]) == (target, target, 0)
        assert ("DeadlineExceeded", "Job was active longer than specified deadline") in bench.events("work")


async def test_first_failed_pod_of_today_is_replaced_after_ten_seconds(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job", release=NEWEST) as bench:
        await bench.create(JOBS, job("Failed", backoffLimit=2))
        await bench.rest(9)
        assert len(bench.names("pods")) == 1
        await bench.rest(3)
        assert len(bench.names("pods")) == 2
        await bench.rest(40)
        assert (len(bench.names("pods")), status_of(bench)["failed"]) == (3, 3)
        assert status_of(bench)["Failed"] == ("True", "BackoffLimitExceeded")


async def test_indexes_fail_by_themselves(tmp_path: Path, autojump_clock: MockClock) -> None:
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    async with open_bench(tmp_path, "job", release=NEWEST) as bench:
        await bench.create(JOBS, job(**spec))
        await bench.rest()
        by_index = {pod["metadata"]["labels"][INDEX]: pod["metadata"]["name"] for pod in bench.all("pods")}
        await set_phase(bench, by_index["0"], "Failed")
        await bench.rest(11)
        assert status_of(bench)["failedIndexes"] == "" and len(bench.names("pods")) == 4
        (replacement,) = set(bench.names("pods")).difference(by_index.values())
        annotations = bench.get("pods", replacement)["metadata"]["annotations"]
        assert annotations["batch.kubernetes.io/job-index-failure-count"] == "1"
        await set_phase(bench, replacement, "Failed")
        await bench.rest(60)
        found = status_of(bench)
        assert (found["failedIndexes"], found["active"], len(bench.names("pods"))) == ("0", 2, 4)
        for index in ("1", "2"):
            await set_phase(bench, by_index[index], "Succeeded")
        await bench.rest()
        found = status_of(bench)
        assert (found["completedIndexes"], found["Failed"]) == ("1,2", ("True", "FailedIndexes"))
        assert (found["succeeded"], found["failed"]) == (2, 2)


@pytest.mark.parametrize(
    "rule",
    [{"succeededIndexes": "1-2", "succeededCount": 1}, {"succeededCount": 1}, {"succeededIndexes": "1"}],
)
async def test_success_policy_ends_a_job(tmp_path: Path, autojump_clock: MockClock, rule: Object) -> None:
    policy = {"rules": [{"succeededIndexes": "0"}, rule]}
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "successPolicy": policy}
    async with open_bench(tmp_path, "job", release=NEWEST) as bench:
        await bench.create(JOBS, job(**spec))
        await bench.rest()
        (one,) = (pod for pod in bench.all("pods") if pod["metadata"]["labels"][INDEX] == "1")
        await set_phase(bench, one["metadata"]["name"], "Succeeded")
        await bench.rest(60)
        found, met = status_of(bench), ("True", "SuccessPolicy")
        assert (found["SuccessCriteriaMet"], found["Complete"], found["succeeded"]) == (met, met, 1)
        assert "failed" not in found
        conditions = bench.get(JOBS, "work")["status"]["conditions"]
        assert {one["message"] for one in conditions} == {"Matched rules at index 1"}


async def test_deleted_pod_is_replaced_when_it_has_failed_if_the_job_says_so(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_bench(tmp_path, "job", release=NEWEST) as bench:
        await bench.create(JOBS, job(podReplacementPolicy="Failed"))
        await bench.rest()
        (first,) = bench.names("pods")
        await bench.delete("pods", first)
        await bench.rest()
        found = status_of(bench)
        assert (found["terminating"], "active" in found, bench.names("pods")) == (1, False, [first])
        await bench.patch("pods", first, {"status": {"phase": "Failed"}}, "status")
        await bench.rest(60)
        assert status_of(bench)["failed"] == 1 and len(bench.names("pods")) == 1


async def test_job_of_another_controller_is_left_alone(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_bench(tmp_path, "job", release=NEWEST) as bench:
        await bench.create(JOBS, job(managedBy="example.com/queue"))
        await bench.rest()
        assert not bench.names("pods") and not status_of(bench)
