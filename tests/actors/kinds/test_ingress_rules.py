"""Ingress: rules, paths, backends, TLS, the class, what stored objects may keep, generation and status."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions, distinct
from tests.cases import cases

BACKEND = {"service": {"name": "s", "port": {"number": 80}}}


def ingress(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": spec}


def with_path(**path: Any) -> dict[str, Any]:
    path = {"path": "/x", "pathType": "Exact", "backend": BACKEND, **path}
    return ingress(rules=[{"http": {"paths": [path]}}])


def with_host(host: str) -> dict[str, Any]:
    return ingress(rules=[{"host": host}])


def test_all_fields_are_stored_as_sent(kinds: Definitions) -> None:
    whole = ingress(
        ingressClassName="c",
        defaultBackend={"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "b"}},
        tls=[{"hosts": ["a.example.com", "*.example.com"], "secretName": "t"}],
        rules=[
            {
                "host": "*.example.com",
                "http": {
                    "paths": [
                        {
                            "path": "/x",
                            "pathType": "Prefix",
                            "backend": {"service": {"name": "s", "port": {"name": "http"}}},
                        }
                    ]
                },
            }
        ],
    )
    assert kinds.decode("ingresses", whole)["spec"] == whole["spec"]
    assert kinds.create_causes("ingresses", whole) == []


def test_default_backend_or_rules_are_required(kinds: Definitions) -> None:
    assert kinds.create_causes("ingresses", ingress()) == [
        (
            "spec",
            "Invalid value: []networking.IngressRule(nil): either `defaultBackend` or `rules` must be specified",
        )
    ]


@cases(
    ("backend", "field", "message"),
    [
        ({}, "", 'Invalid value: "": resource or service backend is required'),
        (
            {**BACKEND, "resource": {"kind": "K", "name": "n"}},
            "",
            'Invalid value: "": cannot set both resource and service backends',
        ),
        ({"service": {"name": "", "port": {"number": 80}}}, ".service.name", "Required value"),
        ({"service": {"name": "s"}}, "", "Required value: port name or number is required"),
        (
            {"service": {"name": "s", "port": {"name": "p", "number": 1}}},
            "",
            'Invalid value: "": cannot set both port name & port number',
        ),
        (
            {"service": {"name": "s", "port": {"number": 65536}}},
            ".service.port.number",
            "Invalid value: 65536: must be between 1 and 65535, inclusive",
        ),
        (
            {"service": {"name": "s", "port": {"name": "a--b"}}},
            ".service.port.name",
            'Invalid value: "a--b": must not contain consecutive hyphens',
        ),
        ({"resource": {"name": "n"}}, ".resource.kind", "Required value: kind is required"),
        ({"resource": {"kind": "K"}}, ".resource.name", "Required value: name is required"),
        (
            {"resource": {"kind": "a/b", "name": "n"}},
            ".resource.kind",
            "Invalid value: \"a/b\": may not contain '/'",
        ),
    ],
)
def test_create_reports_invalid_backends(kinds: Definitions, backend: Any, field: str, message: str) -> None:
    path = "spec.rules[0].http.paths[0].backend"
    assert kinds.create_causes("ingresses", with_path(backend=backend)) == [(path + field, message)]
    assert kinds.create_causes("ingresses", ingress(defaultBackend=backend)) == [
        (f"spec.defaultBackend{field}", message)
    ]


def test_formats_of_service_names_and_api_groups_are_validated(kinds: Definitions) -> None:
    service = {"service": {"name": "1a", "port": {"number": 1}}}
    assert [field for field, _ in kinds.create_causes("ingresses", ingress(defaultBackend=service))] == [
        "spec.defaultBackend.service.name"
    ]
    resource = {"resource": {"apiGroup": "Bad_Group", "kind": "K", "name": "n"}}
    assert [field for field, _ in kinds.create_causes("ingresses", ingress(defaultBackend=resource))] == [
        "spec.defaultBackend.resource.apiGroup"
    ]


@cases(
    ("path", "expected"),
    [
        ({"pathType": None}, [("pathType", "Required value: pathType must be specified")]),
        (
            {"pathType": "Regex"},
            [
                (
                    "pathType",
                    'Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix"',
                )
            ],
        ),
        ({"path": "x"}, [("path", 'Invalid value: "x": must be an absolute path')]),
        ({"path": ""}, [("path", 'Invalid value: "": must be an absolute path')]),
        ({"path": "/a//b"}, [("path", "Invalid value: \"/a//b\": must not contain '//'")]),
        ({"path": "/a/./b"}, [("path", "Invalid value: \"/a/./b\": must not contain '/./'")]),
        ({"path": "/a/../b"}, [("path", "Invalid value: \"/a/../b\": must not contain '/../'")]),
        ({"path": "/a%2fb"}, [("path", "Invalid value: \"/a%2fb\": must not contain '%2f'")]),
        ({"path": "/a%2Fb"}, [("path", "Invalid value: \"/a%2Fb\": must not contain '%2F'")]),
        ({"path": "/a/.."}, [("path", "Invalid value: \"/a/..\": cannot end with '/..'")]),
        ({"path": "/a/."}, [("path", "Invalid value: \"/a/.\": cannot end with '/.'")]),
        ({"path": "", "pathType": "ImplementationSpecific"}, []),
        ({"path": "/a//..", "pathType": "ImplementationSpecific"}, []),
        (
            {"path": "a", "pathType": "ImplementationSpecific"},
            [("path", 'Invalid value: "a": must be an absolute path')],
        ),
    ],
)
def test_create_reports_invalid_paths(kinds: Definitions, path: Any, expected: list[tuple[str, str]]) -> None:
    assert kinds.create_causes("ingresses", with_path(**path)) == [
        (f"spec.rules[0].http.paths[0].{field}", message) for field, message in expected
    ]


def test_create_reports_invalid_hosts(kinds: Definitions) -> None:
    assert kinds.create_causes("ingresses", with_host("*.example.com")) == []
    assert kinds.create_causes("ingresses", with_host("10.0.0.1")) == [
        ("spec.rules[0].host", 'Invalid value: "10.0.0.1": must be a DNS name, not an IP address')
    ]
    for wrong in ("*", "a.*.com", "Bad_Host"):
        assert [field for field, _ in kinds.create_causes("ingresses", with_host(wrong))] == [
            "spec.rules[0].host"
        ]


def test_http_rule_requires_paths(kinds: Definitions) -> None:
    empty = ingress(rules=[{"http": {"paths": []}}])
    assert kinds.decode("ingresses", empty)["spec"]["rules"] == [{"http": {"paths": None}}]
    assert kinds.create_causes("ingresses", empty) == [("spec.rules[0].http.paths", "Required value")]


def test_create_reports_invalid_tls_hosts_and_secrets(kinds: Definitions) -> None:
    wrong = ingress(defaultBackend=BACKEND, tls=[{"hosts": ["ok", "Bad_", "a*"], "secretName": "Bad_"}])
    assert [field for field, _ in kinds.create_causes("ingresses", wrong)] == [
        "spec.tls[0].hosts[1]",
        "spec.tls[0].hosts[2]",
        "spec.tls[0].secretName",
    ]


def test_class_annotation_and_class_field_exclude_each_other(kinds: Definitions, names: Names) -> None:
    key = names.key("ingress.class")
    both = ingress(defaultBackend=BACKEND, ingressClassName="c")
    both["metadata"]["annotations"] = {key: "d"}
    assert kinds.create_causes("ingresses", both) == [
        (f"annotations.{key}", 'Invalid value: "d": can not be set when the class field is also set')
    ]
    assert kinds.update("ingresses", both, both)[1] == []
    named = ingress(defaultBackend=BACKEND, ingressClassName="Bad_")
    assert [field for field, _ in kinds.create_causes("ingresses", named)] == ["spec.ingressClassName"]


def test_update_may_keep_violations_of_later_rules(kinds: Definitions) -> None:
    secret = ingress(defaultBackend=BACKEND, tls=[{"secretName": "Bad_"}])
    other = ingress(defaultBackend=BACKEND, tls=[{"secretName": "Worse_"}])
    assert kinds.update("ingresses", secret, other)[1] == []
    wildcard = ingress(rules=[{"host": "*.a.com", "http": {"paths": []}}])
    worse = ingress(rules=[{"host": "*.a.com", "http": {"paths": [{"path": "x"}]}}])
    assert kinds.update("ingresses", wildcard, worse)[1] == []
    plain = ingress(rules=[{"host": "a.com", "http": {"paths": []}}])
    assert distinct(kinds.update("ingresses", plain, plain)[1]) == [
        ("spec.rules[0].http.paths", "Required value")
    ]


def test_generation_counts_changes_of_the_spec(kinds: Definitions) -> None:
    before = {**ingress(defaultBackend=BACKEND), "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    assert kinds.stored("ingresses", before)["metadata"]["generation"] == 1
    assert kinds.stored("ingresses", before)["status"] == {"loadBalancer": {}}
    new, causes = kinds.update("ingresses", before, before)
    assert causes == [] and new["metadata"]["generation"] == 1 and new["status"] == {"loadBalancer": {}}
    new, _ = kinds.update("ingresses", before, ingress(defaultBackend=BACKEND, ingressClassName="c"))
    assert new["metadata"]["generation"] == 2


def test_status_subresource_changes_only_the_status(kinds: Definitions) -> None:
    before = ingress(defaultBackend=BACKEND)

    def found(**ingress_point: Any) -> dict[str, Any]:
        return {**with_path(), "status": {"loadBalancer": {"ingress": [ingress_point]}}}

    new, causes = kinds.update("ingresses", before, found(ip="1.2.3.4", hostname="a.com"), "status")
    assert causes == [] and new["spec"] == before["spec"] and new["metadata"]["generation"] == 1
    assert new["status"]["loadBalancer"] == {"ingress": [{"ip": "1.2.3.4", "hostname": "a.com"}]}
    field = "status.loadBalancer.ingress[0]"
    assert kinds.update("ingresses", before, found(ip="no"), "status")[1] == [
        (f"{field}.ip", 'Invalid value: "no": must be a valid IP address')
    ]
    assert kinds.update("ingresses", before, found(hostname="1.2.3.4"), "status")[1] == [
        (f"{field}.hostname", 'Invalid value: "1.2.3.4": must be a DNS name, not an IP address')
    ]
