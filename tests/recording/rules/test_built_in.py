"""Each built-in rule has a story in which it fires, and near misses in which it does not."""

from __future__ import annotations

from typing import Any

from tests.recording.rules.story import (
    CONFIG_MAP,
    DEPLOYMENT,
    LEASE,
    MINUTE,
    NAMESPACE,
    POD,
    SECOND,
    SECRET,
    STATEFUL_SET,
    Story,
    each,
    only,
)


def scale(story: Story, replicas: int, by: str, name: str = "web") -> None:
    story.write(DEPLOYMENT, name, {"spec": {"replicas": replicas}}, by=by)
    story.wait(20)


def test_a_fight_over_a_field() -> None:
    story = Story(only("fights"))
    scale(story, 2, "alice")
    for _ in range(2):
        scale(story, 5, "scaler")
        scale(story, 2, "gitops")
    (alert,) = story.fired("fights")
    assert alert.message == (
        "scaler and gitops set spec.replicas of Deployment shop/web in turn: 4 times within 5m"
    )
    assert dict(alert.labels)["field"] == "spec.replicas"
    assert "object=deployments.apps%2Fshop%2Fweb&at=5&" in alert.fragment
    scale(story, 5, "scaler")
    story.wait(600)
    assert story.announced() == [("firing", "fights"), ("resolved", "fights")]
    assert story.alerts[-1].count == 2
    assert story.alerts[-1].id == alert.id


def test_no_fight() -> None:
    def three_turns() -> None:
        story = Story(only("fights"))
        scale(story, 2, "alice")
        for replicas, by in ((5, "scaler"), (2, "gitops"), (5, "scaler")):
            scale(story, replicas, by)
        assert story.alerts == []

    def too_slow() -> None:
        story = Story(only("fights"))
        scale(story, 2, "alice")
        for at in range(10):
            scale(story, at, "scaler" if at % 2 else "gitops")
            story.wait(90)
        assert story.alerts == []

    def different_fields() -> None:
        story = Story(only("fights"))
        story.write(DEPLOYMENT, "web", {"spec": {"replicas": 0, "paused": "0"}})
        replicas, paused = 0, "0"
        for at in range(8):
            replicas, paused = (at, paused) if at % 2 else (replicas, str(at))
            document = {"spec": {"replicas": replicas, "paused": paused}}
            story.write(DEPLOYMENT, "web", document, by="scaler" if at % 2 else "gitops")
        assert story.alerts == []

    def controllers_report_in_the_status() -> None:
        story = Story(only("fights"))
        for at in range(8):
            story.write(POD, "web", {"status": {"phase": str(at)}}, by=f"controller-{at % 2}")
        assert story.alerts == []

    def another_object_of_the_same_name() -> None:
        story = Story(only("fights"))
        for at in range(6):
            scale(story, 2, "alice")
            scale(story, 5, "scaler" if at % 2 else "gitops")
            story.delete(DEPLOYMENT, "web")
        assert story.alerts == []

    each(
        three_turns,
        too_slow,
        different_fields,
        controllers_report_in_the_status,
        another_object_of_the_same_name,
    )


def test_values_of_secrets_are_in_no_alert() -> None:
    text = "rules:\n- {name: a, expression: event.kind == 'Secret', message: 'now {{ object.data }}'}\n"
    from tests.recording.rules.story import rules_of

    story = Story(rules_of(text))
    for at in range(8):
        story.write(SECRET, "web", {"data": {"key": f"secret-{at}"}}, by=f"writer-{at % 2}")
    assert story.announced() == [("firing", "a"), ("firing", "fights")]
    assert story.alerts[0].message == 'now {"key":"***"}'
    assert "secret-" not in repr(story.alerts)


def loop(story: Story, times: int, *, generation: int = 1, **more: Any) -> None:
    for at in range(times):
        document = {"metadata": {"generation": generation}, "status": {"at": str(at)}}
        story.write(DEPLOYMENT, "web", document, by="controller", **more)
        story.wait(1)


def test_a_hot_loop() -> None:
    story = Story(only("hot-loops", writes=100))
    loop(story, 101)
    (alert,) = story.fired("hot-loops")
    assert alert.message == (
        "controller wrote Deployment shop/web 100 times within 5m and did not change its spec"
    )
    assert dict(alert.labels) | {"user": "controller"} == dict(alert.labels)


def test_no_hot_loop() -> None:
    def one_write_less() -> None:
        story = Story(only("hot-loops", writes=100))
        loop(story, 100)
        assert story.alerts == []

    def the_spec_changes() -> None:
        story = Story(only("hot-loops", writes=100))
        loop(story, 1)
        for generation in range(2, 200):
            loop(story, 1, generation=generation)
        assert story.alerts == []

    def several_authors() -> None:
        story = Story(only("hot-loops", writes=100))
        for at in range(150):
            story.write(POD, "web", {"status": {"at": str(at)}}, by=f"controller-{at % 2}")
        assert story.alerts == []

    def renewals_of_a_lease() -> None:
        story = Story(only("hot-loops", writes=100))
        for at in range(250):
            story.write(LEASE, "leader", {"spec": {"renewTime": str(at)}}, by="controller")
        assert story.alerts == []

    def a_rate_whatever_changes() -> None:
        story = Story(only("hot-loops", anyWrites=120))
        for generation in range(1, 122):
            loop(story, 1, generation=generation)
        assert story.announced() == [("firing", "hot-loops")]
        assert "did not change" not in story.alerts[0].message

    each(one_write_less, the_spec_changes, several_authors, renewals_of_a_lease, a_rate_whatever_changes)


def pod(story: Story, restarts: int, waiting: str = "", name: str = "web-1") -> None:
    state = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    owners = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
    status = {"containerStatuses": [{"name": "main", "restartCount": restarts, "state": state}]}
    story.write(POD, name, {"metadata": {"ownerReferences": owners}, "status": status}, by="kubelet")
    story.wait(30)


def test_a_crash_loop() -> None:
    def by_its_reason() -> None:
        story = Story(only("crash-loops"))
        pod(story, 0)
        pod(story, 1)
        assert story.alerts == []
        pod(story, 1, "CrashLoopBackOff")
        (alert,) = story.fired("crash-loops")
        assert alert.message == (
            "container main of Pod shop/web-1 (ReplicaSet web) has restarted 1 times and waits in CrashLoopBackOff"
        )

    def by_its_restarts() -> None:
        story = Story(only("crash-loops"))
        for restarts in range(4):
            pod(story, restarts)
        assert story.announced() == [("firing", "crash-loops")]

    def pods_of_one_owner_are_one_alert() -> None:
        story = Story(only("crash-loops"))
        for name in ("web-1", "web-2", "web-3"):
            pod(story, 4, "CrashLoopBackOff", name)
        assert story.announced() == [("firing", "crash-loops")]
        story.wait(3600)
        assert story.announced()[1:] == [("resolved", "crash-loops")]

    each(by_its_reason, by_its_restarts, pods_of_one_owner_are_one_alert)


def test_no_crash_loop() -> None:
    def two_restarts() -> None:
        story = Story(only("crash-loops"))
        for restarts in (0, 1, 2, 2, 2):
            pod(story, restarts)
        assert story.alerts == []

    def restarts_of_last_week() -> None:
        story = Story(only("crash-loops"))
        for _ in range(5):
            pod(story, 40)
        assert story.alerts == []

    def restarts_far_apart() -> None:
        story = Story(only("crash-loops"))
        for restarts in range(6):
            pod(story, restarts)
            story.wait(600)
        assert story.alerts == []

    def another_reason() -> None:
        story = Story(only("crash-loops"))
        pod(story, 1, "ContainerCreating")
        assert story.alerts == []

    each(two_restarts, restarts_of_last_week, restarts_far_apart, another_reason)


def roll(story: Story, generation: int, observed: int, reason: str = "NewReplicaSetAvailable") -> None:
    conditions = [{"type": "Progressing", "status": "False", "reason": reason}]
    status = {"observedGeneration": observed, "conditions": conditions}
    story.write(DEPLOYMENT, "web", {"metadata": {"generation": generation}, "status": status})


def test_a_stuck_rollout() -> None:
    def by_its_deadline() -> None:
        story = Story(only("stuck-rollouts"))
        roll(story, 2, 2)
        roll(story, 2, 2, "ProgressDeadlineExceeded")
        (alert,) = story.fired("stuck-rollouts")
        assert alert.message == "Deployment shop/web does not progress: its deadline has passed"
        assert alert.severity == "critical"
        roll(story, 3, 3)
        assert story.announced()[1:] == [("resolved", "stuck-rollouts")]

    def nobody_observes_it() -> None:
        story = Story(only("stuck-rollouts"))
        roll(story, 2, 2)
        story.wait(10)
        roll(story, 3, 2)
        started = story.now
        story.wait(299)
        assert story.alerts == []
        story.wait(2)
        (alert,) = story.fired("stuck-rollouts")
        assert alert.time == started + 5 * MINUTE
        story.delete(DEPLOYMENT, "web")
        assert story.announced()[1:] == [("resolved", "stuck-rollouts")]

    def also_of_a_stateful_set() -> None:
        story = Story(only("stuck-rollouts", behind="1m"))
        status = {"observedGeneration": 1}
        story.write(STATEFUL_SET, "db", {"metadata": {"generation": 2}, "status": status})
        story.wait(61)
        assert story.announced() == [("firing", "stuck-rollouts")]

    each(by_its_deadline, nobody_observes_it, also_of_a_stateful_set)


def test_no_stuck_rollout() -> None:
    def observed_in_time() -> None:
        story = Story(only("stuck-rollouts"))
        roll(story, 3, 2)
        story.wait(299)
        roll(story, 3, 3)
        story.wait(3600)
        assert story.alerts == []

    def of_a_deployment_that_is_deleted() -> None:
        story = Story(only("stuck-rollouts"))
        metadata = {"generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z"}
        story.write(DEPLOYMENT, "web", {"metadata": metadata, "status": {"observedGeneration": 2}})
        story.wait(3600)
        assert story.alerts == []

    def of_another_kind() -> None:
        story = Story(only("stuck-rollouts"))
        story.write(POD, "web", {"metadata": {"generation": 3}, "status": {"observedGeneration": 2}})
        story.wait(3600)
        assert story.alerts == []

    each(observed_in_time, of_a_deployment_that_is_deleted, of_another_kind)


def delete_many(story: Story, number: int, by: str, **more: Any) -> None:
    for at in range(number):
        story.write(CONFIG_MAP, f"c-{at}", {}, by="helm")
        story.delete(CONFIG_MAP, f"c-{at}", by=by, **more)
        story.wait(1)


def test_many_deletes() -> None:
    story = Story(only("mass-deletes", deletes=20))
    delete_many(story, 19, "alice")
    delete_many(story, 19, "bob", verb="deletecollection")
    assert story.alerts == []
    story.delete(CONFIG_MAP, "one-more", by="alice")
    (alert,) = story.fired("mass-deletes")
    assert alert.message == ("alice deleted 20 objects within 5m, the last one ConfigMap shop/one-more")
    assert alert.labels == (("user", "alice"),)


def test_few_deletes() -> None:
    def far_apart() -> None:
        story = Story(only("mass-deletes", deletes=20))
        for at in range(40):
            story.delete(CONFIG_MAP, f"c-{at}", by="alice")
            story.wait(16)
        assert story.alerts == []

    def of_one_object_that_has_finalizers() -> None:
        story = Story(only("mass-deletes", deletes=20))
        for _ in range(40):
            story.write(CONFIG_MAP, "c", {"metadata": {"finalizers": ["a/b"]}}, by="alice", verb="delete")
        assert story.alerts == []

    def of_the_garbage_collector() -> None:
        story = Story(only("mass-deletes", deletes=20))
        delete_many(story, 40, "system:serviceaccount:kube-system:generic-garbage-collector")
        assert story.alerts == []

    def of_nobody_knows_whom() -> None:
        story = Story(only("mass-deletes", deletes=20))
        delete_many(story, 40, "recorded")
        assert story.alerts == []

    def of_a_service_account_elsewhere() -> None:
        story = Story(only("mass-deletes", deletes=20))
        delete_many(story, 20, "system:serviceaccount:shop:cleaner")
        assert story.announced() == [("firing", "mass-deletes")]

    each(
        far_apart,
        of_one_object_that_has_finalizers,
        of_the_garbage_collector,
        of_nobody_knows_whom,
        of_a_service_account_elsewhere,
    )


def test_a_burst_of_refused_requests() -> None:
    story = Story(only("refused-bursts", requests=10))
    for _ in range(9):
        story.refuse("alice")
        story.refuse("bob")
        story.refuse("alice", 422)
        story.wait(1)
    assert story.alerts == []
    story.refuse("alice", message='pods is forbidden: User "alice" cannot create')
    (alert,) = story.fired("refused-bursts")
    assert alert.message == (
        "alice was refused 10 requests with 403 within 5m, the last one to create Pod shop/web: "
        'pods is forbidden: User "alice" cannot create'
    )
    assert alert.labels == (("user", "alice"), ("code", "403"))
    assert "at=2026-" in alert.fragment


def test_no_burst_of_refused_requests() -> None:
    def far_apart() -> None:
        story = Story(only("refused-bursts", requests=10))
        for _ in range(30):
            story.refuse("alice")
            story.wait(34)
        assert story.alerts == []

    def writes_that_came_too_late() -> None:
        story = Story(only("refused-bursts", requests=10))
        for _ in range(30):
            story.refuse("controller", 409, conflict=True)
        assert story.alerts == []

    def requests_that_were_not_refused() -> None:
        story = Story(only("refused-bursts", requests=10))
        delete_many(story, 20, "alice")
        assert story.alerts == []

    each(far_apart, writes_that_came_too_late, requests_that_were_not_refused)


def deleting(story: Story, ago: int, finalizers: tuple[str, ...] = ("shop.example/hold",)) -> None:
    from rewound.recording.query.moments import rfc3339

    when = rfc3339(story.now - ago * SECOND)[:19] + "Z"
    metadata = {"deletionTimestamp": when, "finalizers": list(finalizers)}
    conditions = [{"type": "NamespaceFinalizersRemaining", "status": "True", "message": "a claim remains"}]
    story.write(NAMESPACE, "shop", {"metadata": metadata, "status": {"conditions": conditions}})


def test_a_stuck_deletion() -> None:
    def after_a_while() -> None:
        story = Story(only("stuck-deletions"))
        deleting(story, 0)
        started = story.now
        story.wait(300)
        deleting(story, 300)  # an update in between changes nothing
        story.wait(299)
        assert story.alerts == []
        story.wait(100)
        (alert,) = story.fired("stuck-deletions")
        assert alert.time == started + 10 * MINUTE
        assert alert.message == (
            "Namespace shop is being deleted for more than 10m: it waits for shop.example/hold; a claim remains"
        )
        story.delete(NAMESPACE, "shop")
        assert story.announced()[1:] == [("resolved", "stuck-deletions")]

    def since_before_the_first_event() -> None:
        story = Story(only("stuck-deletions"))
        deleting(story, 86_400)
        (alert,) = story.fired("stuck-deletions")
        assert story.now - alert.time == (86_400 - 600) * SECOND

    each(after_a_while, since_before_the_first_event)


def test_a_deletion_that_ends() -> None:
    story = Story(only("stuck-deletions"))
    deleting(story, 0)
    story.wait(599)
    story.delete(NAMESPACE, "shop")
    story.wait(3600)
    assert story.alerts == []


def test_clocks_that_are_apart() -> None:
    def of_the_server() -> None:
        story = Story(only("clocks-apart"))
        story.write(CONFIG_MAP, "c", {})
        for at in range(3):
            story.write(CONFIG_MAP, "c", {"data": {"at": str(at)}}, written=story.now + 90 * SECOND)
            story.wait(40)
        (alert,) = story.fired("clocks-apart")
        assert alert.message.startswith("the clock of the API server is 1m3")
        assert "ahead of the recorder's" in alert.message

    def of_a_node() -> None:
        from rewound.recording.query.moments import rfc3339

        story = Story(only("clocks-apart"))
        for node, apart in (("good", 0), ("bad", -300)):
            for _ in range(10):
                when = rfc3339(story.now + apart * SECOND)
                spec = {"holderIdentity": node, "renewTime": when}
                story.write(LEASE, node, {"spec": spec}, by=f"system:node:{node}")
                story.wait(10)
        (alert,) = story.fired("clocks-apart")
        assert alert.labels == (("clock", "bad"),)
        assert "5m0s behind" in alert.message

    each(of_the_server, of_a_node)


def test_clocks_that_are_not_apart() -> None:
    def what_arrives_late_after_a_pause() -> None:
        story = Story(only("clocks-apart"))
        story.write(CONFIG_MAP, "c", {})
        for at in range(100):
            written = story.now - (600 - at) * SECOND
            story.write(CONFIG_MAP, "c", {"data": {"at": str(at)}}, written=written)
        story.wait(60)
        story.write(CONFIG_MAP, "c", {"data": {"at": "now"}})
        assert story.alerts == []

    def objects_that_a_list_found() -> None:
        story = Story(only("clocks-apart"))
        for at in range(100):
            story.write(CONFIG_MAP, f"c-{at}", {}, written=story.now - 86_400 * SECOND)
            story.wait(5)
        assert story.alerts == []

    def a_write_that_did_not_reach_the_managers() -> None:
        story = Story(only("clocks-apart"))
        written = story.now
        for at in range(100):
            story.write(CONFIG_MAP, "c", {"data": {"at": str(at)}}, written=written)
            story.wait(5)
        assert story.alerts == []

    def a_time_in_the_object() -> None:
        story = Story(only("clocks-apart"))
        for at in range(100):
            document = {"data": {"time": "2040-01-01T00:00:00Z", "at": str(at)}}
            story.write(CONFIG_MAP, "c", document)
            story.wait(5)
        assert story.alerts == []

    each(
        what_arrives_late_after_a_pause,
        objects_that_a_list_found,
        a_write_that_did_not_reach_the_managers,
        a_time_in_the_object,
    )
