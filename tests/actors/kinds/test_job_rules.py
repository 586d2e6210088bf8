"""Job: defaults, the selector generated from its uid, counts, modes, immutable fields, status."""

from __future__ import annotations

import copy
from typing import Any

from rewound.actors.kinds.batch import JOB_COLUMNS
from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions, replace
from tests.actors.kinds.workload import template, with_status
from tests.cases import cases

PLURAL = "jobs"
GENERATED = {"controller-uid": "u-1", "job-name": "a"}


def job(name: str = "a", labels: Any = None, pods: Any = None, **spec: Any) -> dict[str, Any]:
    made = template(labels, **{"restartPolicy": "Never", **(pods or {})})
    return {"metadata": {"name": name}, "spec": {"template": made, **spec}}


def changed(kinds: Definitions, before: Any, **status: Any) -> Any:
    """A function that takes a change and returns the fields of the causes of a replace of the stored job with it."""
    definition = kinds[PLURAL]
    old = kinds.stored(PLURAL, before)
    old["status"] = status

    def attempt(change: Any) -> list[str]:
        new = copy.deepcopy(old)
        change(new)
        return list(dict.fromkeys(field for field, _ in replace(definition, new, old)[1]))

    return attempt


def test_create_sets_defaults(kinds: Definitions, names: Names) -> None:
    stored = kinds.stored(PLURAL, with_status(job(), active=3))
    spec = stored["spec"]
    assert list(spec) == [
        *("parallelism", "completions", "backoffLimit", "selector", "template", "completionMode", "suspend")
    ]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert (spec["completionMode"], spec["suspend"]) == ("NonIndexed", False)
    assert stored["status"] == {} and stored["metadata"]["generation"] == 1
    assert stored["metadata"]["annotations"] == {names.key("job-tracking", "batch"): ""}
    assert kinds.create_causes(PLURAL, job()) == []
    assert "completions" not in kinds.stored(PLURAL, job(parallelism=2))["spec"]
    assert kinds.stored(PLURAL, job(completions=2))["spec"]["parallelism"] == 1


def test_selector_and_labels_are_generated_from_the_uid(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, job())
    assert stored["spec"]["selector"] == {"matchLabels": {"controller-uid": "u-1"}}
    assert stored["metadata"]["labels"] == stored["spec"]["template"]["metadata"]["labels"] == GENERATED
    stored = kinds.stored(PLURAL, job(labels={"app": "x"}))
    assert stored["spec"]["template"]["metadata"]["labels"] == {"app": "x", **GENERATED}
    assert stored["metadata"]["labels"] == {"app": "x", **GENERATED}
    same_labels = {**job(labels={"app": "x"}), "metadata": {"name": "a", "labels": {"app": "x"}}}
    assert kinds.stored(PLURAL, same_labels)["metadata"]["labels"] == {"app": "x"}
    named = {**job(), "metadata": {"name": "a", "labels": {"mine": "1"}}}
    assert kinds.stored(PLURAL, named)["metadata"]["labels"] == {"mine": "1"}


def test_sent_selector_is_invalid_without_manual_selector(kinds: Definitions) -> None:
    causes = kinds.create_causes(PLURAL, job(selector={"matchLabels": {"a": "b"}}))
    assert [field for field, _ in causes] == ["spec.selector", "spec.template.metadata.labels"]
    causes = kinds.create_causes(PLURAL, job(labels={"job-name": "other", "controller-uid": "u-2"}))
    assert [field for field, _ in causes] == [
        "spec.template.metadata.labels[controller-uid]",
        "spec.template.metadata.labels[job-name]",
        "spec.template.metadata.labels",
    ]


def test_sent_selector_is_kept_with_manual_selector(kinds: Definitions) -> None:
    by_hand = job(labels={"a": "b"}, selector={"matchLabels": {"a": "b"}}, manualSelector=True)
    stored = kinds.stored(PLURAL, by_hand)
    assert stored["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    assert stored["metadata"]["labels"] == {"a": "b"}
    assert kinds.create_causes(PLURAL, by_hand) == []
    assert [field for field, _ in kinds.create_causes(PLURAL, job(manualSelector=True))] == [
        "spec.selector",
        "spec.template.metadata.labels",
    ]


@cases(
    ("spec", "field", "message"),
    [
        *(
            ({part: -1}, part, "Invalid value: -1: must be greater than or equal to 0")
            for part in (
                *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit"),
                "ttlSecondsAfterFinished",
            )
        ),
        (
            {"completionMode": "Odd"},
            "completionMode",
            'Unsupported value: "Odd": supported values: "NonIndexed", "Indexed"',
        ),
        (
            {"completionMode": "Indexed", "parallelism": 2},
            "completions",
            "Required value: when completion mode is Indexed",
        ),
        (
            {"completionMode": "Indexed", "parallelism": 100_001, "completions": 1},
            "parallelism",
            "Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
        ),
        (
            {"pods": {"restartPolicy": "Always"}},
            "template.spec.restartPolicy",
            'Required value: valid values: "OnFailure", "Never"',
        ),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, spec: Any, field: str, message: str) -> None:
    assert kinds.create_causes(PLURAL, job(**spec)) == [(f"spec.{field}", message)]


def test_names_of_indexed_pods_must_be_dns_labels(kinds: Definitions) -> None:
    long = "a" * 62
    assert kinds.create_causes(PLURAL, job(long)) == []
    causes = kinds.create_causes(PLURAL, job(long, completionMode="Indexed", completions=11))
    assert causes == [
        (
            "metadata.name",
            f'Invalid value: "{long}": will not able to create pod with invalid DNS label: {long}-10',
        )
    ]


def test_update_of_immutable_field_is_refused(kinds: Definitions) -> None:
    attempt = changed(kinds, job())
    assert attempt(lambda new: new["spec"].update(completions=2)) == ["spec.completions"]
    assert attempt(lambda new: new["spec"].update(completionMode="Indexed")) == ["spec.completionMode"]
    assert attempt(lambda new: new["spec"]["template"]["spec"].update(hostname="h")) == ["spec.template"]
    assert attempt(lambda new: new["spec"].pop("selector")) == [
        "spec.selector",
        "spec.template.metadata.labels",
    ]


@cases("spec", [{"parallelism": 3}, {"backoffLimit": 1}, {"suspend": True}, {"ttlSecondsAfterFinished": 5}])
def test_update_of_mutable_field_is_valid(kinds: Definitions, spec: Any) -> None:
    assert changed(kinds, job())(lambda new: new["spec"].update(spec)) == []


def test_scheduling_directives_are_mutable_while_suspended_and_never_started(kinds: Definitions) -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}
    near = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    changes = ({"nodeSelector": {"a": "b"}}, {"tolerations": [{"operator": "Exists"}]}, {"affinity": near})
    for spec in changes:
        for before, started, expected in (
            (job(suspend=True), {}, []),
            (job(suspend=True), {"startTime": "2020-01-01T00:00:00Z"}, ["spec.template"]),
            (job(), {}, ["spec.template"]),
        ):
            attempt = changed(kinds, before, **started)
            assert attempt(lambda new, spec=spec: new["spec"]["template"]["spec"].update(spec)) == expected
    with_affinity = changed(kinds, job(suspend=True, pods={"affinity": near}))
    assert with_affinity(lambda new: new["spec"]["template"]["spec"].pop("affinity")) == []
    suspended = changed(kinds, job(suspend=True))
    assert suspended(lambda new: new["spec"]["template"]["metadata"].update(annotations={"n": "1"})) == []


def test_update_cannot_add_the_tracking_annotation(kinds: Definitions, names: Names) -> None:
    old = kinds.stored(PLURAL, job())
    new = copy.deepcopy(old)
    del old["metadata"]["annotations"]
    key = names.key("job-tracking", "batch")
    assert replace(kinds[PLURAL], new, old)[1] == [
        (f"metadata.annotations[{key}]", "Forbidden: cannot add this annotation")
    ]


def test_status_update_validates_counts(kinds: Definitions) -> None:
    right = with_status(job(), active=1, ready=0, uncountedTerminatedPods={"failed": ["u"]})
    new, causes = kinds.update(PLURAL, job(), right, "status")
    assert causes == [] and new["status"] == {
        "active": 1,
        "uncountedTerminatedPods": {"failed": ["u"]},
        "ready": 0,
    }
    wrong = with_status(
        job(), failed=-1, ready=-1, uncountedTerminatedPods={"succeeded": ["u", ""], "failed": ["u"]}
    )
    assert kinds.update(PLURAL, job(), wrong, "status")[1] == [
        ("status.failed", "Invalid value: -1: must be greater than or equal to 0"),
        ("status.ready", "Invalid value: -1: must be greater than or equal to 0"),
        ("status.uncountedTerminatedPods.succeeded[1]", 'Invalid value: "": must not be empty'),
        ("status.uncountedTerminatedPods.failed[0]", 'Duplicate value: "u"'),
    ]


def test_field_selector_status_successful(kinds: Definitions) -> None:
    definition = kinds[PLURAL]
    assert definition.selection.fields["status.successful"]({"status": {"succeeded": 2}}) == "2"
    assert definition.selects("status.successful") and not definition.selects("status.failed")
    assert definition.unsupported_field_text("x") == 'field label "x" not supported for Job'
    assert definition.deletion.orphans_by_default


@cases(
    ("spec", "status", "completions", "duration"),
    [
        ({}, {}, "0/1", ""),
        ({"completions": 3}, {"succeeded": 2, "startTime": "2020-09-13T12:26:30Z"}, "2/3", "10s"),
        ({"parallelism": 2}, {}, "0/1 of 2", ""),
        ({"parallelism": 1}, {}, "0/1", ""),
        (
            {},
            {"startTime": "2020-01-01T00:00:00Z", "completionTime": "2020-01-01T00:01:00Z"},
            "0/1",
            "60s",
        ),
    ],
)
def test_table_cells_are_computed_from_the_object(
    kinds: Definitions, spec: Any, status: Any, completions: str, duration: str
) -> None:
    stored = {**kinds.stored(PLURAL, job(**spec)), "status": status}
    cells = {column.name: column.cell(stored, 1_600_000_000_000_000) for column in JOB_COLUMNS}
    assert (cells["Completions"], cells["Duration"]) == (completions, duration)
    assert cells["Selector"] == "controller-uid=u-1"


def test_long_name_is_one_cause(kinds: Definitions) -> None:
    """The name is a label of the pods. A template with labels also gives them to the job, which adds a second cause."""
    long = "must be no more than 63 characters"
    for labels, fields in (
        (None, ["spec.template.labels"]),
        ({"a": "b"}, ["metadata.labels", "spec.template.labels"]),
    ):
        causes = kinds.create_causes(PLURAL, job(name="a" * 64, labels=labels))
        assert [(field, message.endswith(long)) for field, message in causes] == [
            (field, True) for field in fields
        ]


def test_labels_of_another_job_are_shown_as_a_map(kinds: Definitions) -> None:
    causes = kinds.create_causes(PLURAL, job(labels={"job-name": "b"}))
    assert [message for field, message in causes if field == "spec.template.metadata.labels[job-name]"] == [
        'Invalid value: map[string]string{"controller-uid":"u-1", "job-name":"b"}: must be \'a\''
    ]
