"""APIService: its name, priorities, local and remote services, and its status."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

PLURAL = "apiservices"


def service(**spec: Any) -> dict[str, Any]:
    whole = {
        "group": "example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 15,
        **spec,
    }
    name = f"{whole['version']}.{whole['group']}"
    return {"metadata": {"name": name}, "spec": {k: v for k, v in whole.items() if v is not None}}


def remote(reference: Any = None, **spec: Any) -> dict[str, Any]:
    return service(service={"namespace": "n", "name": "s"} if reference is None else reference, **spec)


def test_local_api_service_is_available_from_creation(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, service())
    assert stored["status"]["conditions"] == [
        {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
    ]
    assert kinds.create_causes(PLURAL, service()) == []


def test_remote_api_service_is_created_without_conditions(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, remote())
    assert stored["status"] == {} and stored["spec"]["service"]["port"] == 443
    assert kinds.create_causes(PLURAL, remote(caBundle="AAAA")) == []


def test_name_must_be_version_and_group(kinds: Definitions) -> None:
    misnamed = {**service(), "metadata": {"name": "x"}}
    message = 'Invalid value: "x": must be `spec.version+"."+spec.group`: "v1.example.com"'
    assert kinds.create_causes(PLURAL, misnamed) == [("metadata.name", message)]
    slashed = {**service(), "metadata": {"name": "a/b"}}
    assert kinds.create_causes(PLURAL, slashed) == [
        ("metadata.name", "Invalid value: \"a/b\": may not contain '/'")
    ]


def test_only_v1_may_have_an_empty_group(kinds: Definitions) -> None:
    assert kinds.create_causes(PLURAL, service(group="")) == []
    assert kinds.create_causes(PLURAL, service(group="", version="v2")) == [
        ("spec.group", "Required value: only v1 may have an empty group and it better be legacy kube")
    ]


@cases(
    ("spec", "field", "message"),
    [
        (
            {"groupPriorityMinimum": 0},
            "groupPriorityMinimum",
            "Invalid value: 0: must be positive and less than 20000",
        ),
        (
            {"groupPriorityMinimum": 20001},
            "groupPriorityMinimum",
            "Invalid value: 20001: must be positive and less than 20000",
        ),
        (
            {"versionPriority": 1001},
            "versionPriority",
            "Invalid value: 1001: must be positive and less than 1000",
        ),
        (
            {"caBundle": "AAAA"},
            "caBundle",
            'Invalid value: "3 bytes": local APIServices may not have a caBundle',
        ),
        (
            {"insecureSkipTLSVerify": True},
            "insecureSkipTLSVerify",
            "Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
        ),
        ({"service": {"name": "s"}}, "service.namespace", "Required value"),
        ({"service": {"namespace": "n"}}, "service.name", "Required value"),
        (
            {"service": {"namespace": "n", "name": "s", "port": 0}},
            "service.port",
            "Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
        ),
        (
            {"service": {"namespace": "n", "name": "s"}, "insecureSkipTLSVerify": True, "caBundle": "AAAA"},
            "insecureSkipTLSVerify",
            "Invalid value: true: may not be true if caBundle is present",
        ),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, spec: Any, field: str, message: str) -> None:
    assert kinds.create_causes(PLURAL, service(**spec)) == [(f"spec.{field}", message)]


def test_group_and_version_formats_are_validated(kinds: Definitions) -> None:
    assert [field for field, _ in kinds.create_causes(PLURAL, service(group="Bad_"))] == ["spec.group"]
    assert [field for field, _ in kinds.create_causes(PLURAL, service(version="1a"))] == ["spec.version"]


def test_status_subresource_changes_only_the_status(kinds: Definitions) -> None:
    found = {**remote(), "status": {"conditions": [{"type": "Available", "status": "True"}]}}
    new, causes = kinds.update(PLURAL, remote(), found, "status")
    assert causes == [] and new["status"]["conditions"][0]["status"] == "True"
    assert kinds.update(PLURAL, remote(), found)[0]["status"] == {}
    maybe = {**remote(), "status": {"conditions": [{"type": "Available", "status": "Maybe"}]}}
    assert kinds.update(PLURAL, remote(), maybe, "status")[1] == [
        (
            "status.conditions[0].status",
            'Unsupported value: "Maybe": supported values: "True", "False", "Unknown"',
        )
    ]


def test_update_is_validated_and_needs_a_resource_version(kinds: Definitions) -> None:
    assert not kinds[PLURAL].strategy.allow_unconditional_update and kinds[PLURAL].names.categories == (
        "api-extensions",
    )
    assert kinds.update(PLURAL, service(), service(versionPriority=16))[1] == []
    _, causes = kinds.update(PLURAL, service(), service(versionPriority=0))
    assert [field for field, _ in causes] == ["spec.versionPriority"]
