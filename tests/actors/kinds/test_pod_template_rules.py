"""PodTemplate: the rules of pods, at the path of the template."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.core.pod_template import pod_template_rules
from rewound.actors.kinds.validation import collect
from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions, causes_of
from tests.actors.kinds.pods import CONTAINER, QUALIFIED


def document(metadata: Any = None, **spec: Any) -> dict[str, Any]:
    template = {"metadata": metadata or {}, "spec": {"containers": [CONTAINER], **spec}}
    return {"metadata": {"name": "a"}, "template": template}


def test_creation_timestamp_of_template_metadata_is_null(kinds: Definitions) -> None:
    decoded = kinds.decode("podtemplates", document({"labels": {"a": "b"}}))
    assert decoded["template"]["metadata"] == {"creationTimestamp": None, "labels": {"a": "b"}}


def test_generation_counts_changes_of_the_template(kinds: Definitions) -> None:
    before = document()
    assert kinds.stored("podtemplates", before)["metadata"]["generation"] == 1
    same, _ = kinds.update(
        "podtemplates", before, {**before, "metadata": {"name": "a", "labels": {"a": "b"}}}
    )
    assert same["metadata"]["generation"] == 1
    other, causes = kinds.update("podtemplates", before, document(hostname="h"))
    assert causes == [] and other["metadata"]["generation"] == 2


def test_errors_have_the_path_of_the_template(kinds: Definitions) -> None:
    bad = document({"labels": {"a b": "c"}, "annotations": {"d e": "f"}}, containers=[{"name": "c"}])
    assert kinds.create_causes("podtemplates", bad) == [
        ("template.labels", f'Invalid value: "a b": {QUALIFIED}'),
        ("template.annotations", f'Invalid value: "d e": {QUALIFIED}'),
        ("template.spec.containers[0].image", "Required value"),
    ]


def test_template_refuses_ephemeral_containers(kinds: Definitions) -> None:
    bad = document(ephemeralContainers=[{"name": "d", "image": "x"}])
    assert kinds.create_causes("podtemplates", bad) == [
        (
            "template.spec.ephemeralContainers",
            "Forbidden: ephemeral containers not allowed in pod template",
        )
    ]


def test_seccomp_annotation_and_field_must_match(kinds: Definitions, names: Names) -> None:
    key = names.key("pod", "seccomp.security.alpha")
    context = {"seccompProfile": {"type": "Unconfined"}}
    bad = document({"annotations": {key: "runtime/default"}}, securityContext=context)
    assert kinds.create_causes("podtemplates", bad) == [
        (
            "template.spec.securityContext.seccompProfile.type",
            "Forbidden: seccomp type in annotation and field must match",
        )
    ]


def test_template_rules_take_the_path_of_the_workload(kinds: Definitions, names: Names) -> None:
    template = kinds.decode("podtemplates", document(restartPolicy="x"))["template"]
    ((field, _),) = causes_of(collect(pod_template_rules, template, "spec.template", names))
    assert field == "spec.template.spec.restartPolicy"


def test_update_may_keep_invalid_values_of_the_old_template(kinds: Definitions, names: Names) -> None:
    key = names.key("pod-deletion-cost", "controller")
    long = document({"annotations": {key: "x"}}, dnsConfig={"searches": ["a"] * 7})
    template = kinds.decode("podtemplates", long)["template"]
    assert len(collect(pod_template_rules, template, "t", names)) == 2
    assert collect(pod_template_rules, template, "t", names, template) == []
