"""WebhookClientConfig: URLs with only a host and a path, services with a name, a port and a path."""

from __future__ import annotations

from rewound.actors.kinds.declaration.webhook_client import service_rules, url_rules
from rewound.actors.kinds.validation import collect
from tests.actors.kinds.definitions import Definitions, causes_of
from tests.cases import cases

FORM = "; desired format: https://host[/path]"


@cases(
    ("url", "messages"),
    [
        ("https://h.example.com", []),
        ("https://h.example.com:8443/a/b", []),
        ("http://h.example.com", [f"Invalid value: \"http\": 'https' is the only allowed URL scheme{FORM}"]),
        ("https:///x", [f'Invalid value: "": host must be provided{FORM}']),
        (
            "h.example.com/x",
            [
                f"Invalid value: \"\": 'https' is the only allowed URL scheme{FORM}",
                f'Invalid value: "": host must be provided{FORM}',
            ],
        ),
        (
            "https://u:p@h.example.com",
            ['Invalid value: "u:p": user information is not permitted in the URL'],
        ),
        ("https://h.example.com/#f", ['Invalid value: "f": fragments are not permitted in the URL']),
        (
            "https://h.example.com?y=1",
            ['Invalid value: "y=1": query parameters are not permitted in the URL'],
        ),
    ],
)
def test_url_errors(url: str, messages: list[str]) -> None:
    assert causes_of(collect(url_rules, url, "url")) == [("url", message) for message in messages]


@cases("url", ["https://h:port", "https://[::1", "https://h:99999"])
def test_unparsable_url_is_refused(url: str) -> None:
    [(_, message)] = causes_of(collect(url_rules, url, "url"))
    assert message.startswith("Required value: url must be a valid URL: ")


@cases("path", [None, "", "/", "/a", "/a/b.c/"])
def test_valid_services_pass(path: str | None) -> None:
    assert collect(service_rules, "s", "n", path, 443, "service") == []


@cases(
    ("path", "message"),
    [
        ("//", 'Invalid value: "//": segment[0] may not be empty'),
        ("rel", "Invalid value: \"rel\": must start with a '/'"),
        ("/a//b", 'Invalid value: "/a//b": segment[1] may not be empty'),
    ],
)
def test_service_path_errors(path: str, message: str) -> None:
    assert causes_of(collect(service_rules, "s", "n", path, 443, "service")) == [("service.path", message)]


def test_segments_of_service_paths_must_be_dns_subdomains() -> None:
    [(field, message)] = causes_of(collect(service_rules, "s", "n", "/a/B_d", 443, "service"))
    assert field == "service.path" and message.startswith('Invalid value: "/a/B_d": segment[1]: a lowercase')


def test_service_name_namespace_and_port_are_validated() -> None:
    assert causes_of(collect(service_rules, "", "", None, 0, "service")) == [
        ("service.name", "Required value: service name is required"),
        ("service.namespace", "Required value: service namespace is required"),
        ("service.port", "Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"),
    ]


def test_a_missing_name_is_reported_at_the_namespace_and_the_reverse(kinds: Definitions) -> None:
    def missing(**service: str) -> list[tuple[str, str]]:
        hook = {
            "name": "a.example.com",
            "clientConfig": {"service": service},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        document = {"metadata": {"name": "a"}, "webhooks": [hook]}
        return kinds.create_causes("validatingwebhookconfigurations", document)

    field = "webhooks[0].clientConfig.service"
    assert missing(namespace="n") == [(f"{field}.namespace", "Required value: service namespace is required")]
    assert missing(name="s") == [(f"{field}.name", "Required value: service name is required")]
