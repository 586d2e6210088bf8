"""The admissionregistration group: which webhooks judge and change which writes.

A configuration that broke one of three younger rules before may go on breaking it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from actors.kinds.declaration.columns import AGE, NAME, Column, size_of
from actors.kinds.declaration.definition import Definition, Deletion, DiscoveryNames, Table
from actors.kinds.declaration.halves import count
from actors.kinds.declaration.label_selector import LABEL_SELECTOR, label_selector_rules
from actors.kinds.declaration.meta import METADATA, metadata_rules
from actors.kinds.declaration.strategy import Strategy
from actors.kinds.declaration.webhook_client import service_rules, url_rules
from actors.kinds.schema.fields import BYTES, INT32, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation.checks import (
    FieldError,
    dns_subdomain,
    duplicate,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
)
from actors.kinds.validation.formats import dns_1035_label
from actors.messages import Object
from actors.names import Names

FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
SIDE_EFFECTS: Final = ("None", "NoneOnDryRun", "Some", "Unknown")
NO_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES: Final = ("*", "Cluster", "Namespaced")
REVIEW_VERSIONS: Final = ("v1", "v1beta1")
SHORTEST_TIMEOUT, LONGEST_TIMEOUT = 1, 30

RULE = Struct(
    "admissionregistration.v1.RuleWithOperations",
    Field("operations", STRINGS, 1),
    Field("apiGroups", STRINGS, 1, embedded=2),
    Field("apiVersions", STRINGS, 2, embedded=2),
    Field("resources", STRINGS, 3, embedded=2),
    Field("scope", STRING, 4, embedded=2, pointer=True, default="*"),
)
SERVICE_REFERENCE = Struct(
    "admissionregistration.v1.ServiceReference",
    Field("namespace", STRING, 1, required=True, always=True),
    Field("name", STRING, 2, required=True, always=True),
    Field("path", STRING, 3, pointer=True),
    Field("port", INT32, 4, pointer=True, default=443),
)
CLIENT_CONFIG = Struct(
    "admissionregistration.v1.WebhookClientConfig",
    Field("url", STRING, 3, pointer=True),
    Field("service", SERVICE_REFERENCE, 1, pointer=True),
    Field("caBundle", BYTES, 2),
)


def _webhook(kind: str, object_selector: int, *more: Field) -> Struct:
    return Struct(
        f"admissionregistration.v1.{kind}Webhook",
        Field("name", STRING, 1, required=True, always=True),
        Field("clientConfig", CLIENT_CONFIG, 2, required=True),
        Field("rules", ListOf(RULE), 3),
        Field("failurePolicy", STRING, 4, pointer=True, default="Fail"),
        Field("matchPolicy", STRING, 9, pointer=True, default="Equivalent"),
        Field("namespaceSelector", LABEL_SELECTOR, 5, pointer=True, default=dict),
        Field("objectSelector", LABEL_SELECTOR, object_selector, pointer=True, default=dict),
        Field("sideEffects", STRING, 6, required=True, pointer=True, always=True),
        Field("timeoutSeconds", INT32, 7, pointer=True, default=10),
        Field("admissionReviewVersions", STRINGS, 8, required=True, always=True),
        *more,
    )


MUTATING = _webhook("Mutating", 11, Field("reinvocationPolicy", STRING, 10, pointer=True, default="Never"))
VALIDATING = _webhook("Validating", 10)


def declare(names: Names) -> tuple[Definition, ...]:
    group = names.group("admissionregistration")
    return _define(group, "Mutating", MUTATING), _define(group, "Validating", VALIDATING)


def _define(group: str, kind: str, webhook: Struct) -> Definition:
    whole = f"{kind}WebhookConfiguration"
    fields = Struct(
        f"admissionregistration.v1.{whole}",
        METADATA,
        Field("webhooks", ListOf(webhook), 2, patch="merge", merge_key="name"),
    )
    return Definition(
        group=group,
        version="v1",
        kind=whole,
        plural=f"{whole.lower()}s",
        names=DiscoveryNames(categories=("api-extensions",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=fields,
        deletion=Deletion(only_known_finalizers=False),
        table=Table(
            (NAME, Column("Webhooks", "integer", "How many webhooks it has.", size_of("webhooks")), AGE)
        ),
        strategy=Strategy(
            allow_unconditional_update=False,
            prepare_for_create=prepare_create,
            prepare_for_update=lambda new, old: count(new, old, "webhooks"),
            validate_create=partial(rules, asked=ALL_RULES),
            validate_update=change_rules,
        ),
    )


def prepare_create(new: Object) -> None:
    new["metadata"]["generation"] = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """Which of the younger rules are asked of a configuration."""

    no_side_effects: bool = True
    known_versions: bool = True
    unique_names: bool = True


ALL_RULES: Final = Asked()


def rules(new: Object, asked: Asked) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, hook in enumerate(new.get("webhooks", ())):
        field, name = f"webhooks[{index}]", hook["name"]
        errors += _hook(hook, field, NO_SIDE_EFFECTS if asked.no_side_effects else SIDE_EFFECTS)
        versions = hook["admissionReviewVersions"] or []
        errors += _versions(versions, f"{field}.admissionReviewVersions", known=asked.known_versions)
        if asked.unique_names and name in seen:
            errors.append(duplicate(f"{field}.name", name))
        seen |= {name} if name else set()
    return errors


def change_rules(new: Object, old: Object) -> list[FieldError]:
    hooks = old.get("webhooks", [])
    asked = Asked(
        all(hook["sideEffects"] in NO_SIDE_EFFECTS for hook in hooks),
        all(_speaks_with_us(hook["admissionReviewVersions"] or list(REVIEW_VERSIONS)) for hook in hooks),
        len({hook["name"] for hook in hooks}) == len(hooks),
    )
    metadata = metadata_rules(
        new["metadata"], namespaced=False, check_name=name_is_subdomain, known_finalizers=False
    )
    return [*metadata, *rules(new, asked)]


def _hook(hook: Object, field: str, side_effects: tuple[str, ...]) -> list[FieldError]:
    errors = _full_name(hook["name"], f"{field}.name")
    for index, rule in enumerate(hook.get("rules", ())):
        errors += _rule(rule, f"{field}.rules[{index}]")
    errors += _one_of(hook, field, "failurePolicy", FAILURE_POLICIES)
    errors += _one_of(hook, field, "matchPolicy", MATCH_POLICIES)
    if hook["sideEffects"] is None:
        text = f"must specify one of {', '.join(side_effects)}"
        errors.append(required(f"{field}.sideEffects", text))
    else:
        errors += _one_of(hook, field, "sideEffects", side_effects)
    seconds = hook["timeoutSeconds"]
    if not SHORTEST_TIMEOUT <= seconds <= LONGEST_TIMEOUT:
        text = f"the timeout value must be between {SHORTEST_TIMEOUT} and {LONGEST_TIMEOUT} seconds"
        errors.append(invalid(f"{field}.timeoutSeconds", seconds, text))
    errors += label_selector_rules(hook["namespaceSelector"], f"{field}.namespaceSelector")
    errors += label_selector_rules(hook["objectSelector"], f"{field}.objectSelector")
    if "reinvocationPolicy" in hook:
        errors += _one_of(hook, field, "reinvocationPolicy", REINVOCATION_POLICIES)
    return errors + _client(hook["clientConfig"], f"{field}.clientConfig")


def _one_of(hook: Object, field: str, part: str, supported: tuple[str, ...]) -> list[FieldError]:
    value = hook[part]
    return [] if value in supported else [not_supported(f"{field}.{part}", value, supported)]


def _full_name(name: str, field: str) -> list[FieldError]:
    if not name:
        return [required(field)]
    wrong = dns_subdomain(name)
    if wrong:
        return [invalid(field, name, ",".join(wrong))]
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        return [invalid(field, name, text)]
    return []


def _client(config: Object, field: str) -> list[FieldError]:
    url, service = config.get("url"), config.get("service")
    if (url is None) is (service is None):
        return [required(field, "exactly one of url or service is required")]
    if url is not None:
        return url_rules(url, f"{field}.url")
    assert service is not None
    # What is missing has always been told of the other: a missing name of the namespace, and the reverse.
    name, namespace = service["namespace"], service["name"]
    return service_rules(name, namespace, service.get("path"), service["port"], f"{field}.service")


def _versions(versions: list[str], field: str, *, known: bool) -> list[FieldError]:
    if not versions:
        return [required(field, f"must specify one of {', '.join(REVIEW_VERSIONS)}")]
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(invalid(f"{field}[{index}]", version, "duplicate version"))
        else:
            errors += [invalid(f"{field}[{index}]", version, text) for text in dns_1035_label(version)]
    if known and not _speaks_with_us(versions):
        text = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        errors.append(invalid(field, versions, text))
    return errors


def _speaks_with_us(versions: list[str]) -> bool:
    return not set(REVIEW_VERSIONS).isdisjoint(versions)


def _rule(rule: Object, field: str) -> list[FieldError]:
    operations = rule.get("operations", [])
    errors = _alone(operations, f"{field}.operations", "operations")
    errors += [
        not_supported(f"{field}.operations[{index}]", one, OPERATIONS)
        for index, one in enumerate(operations)
        if one not in OPERATIONS
    ]
    errors += _alone(rule.get("apiGroups", []), f"{field}.apiGroups", "API groups")
    versions = rule.get("apiVersions", [])
    errors += _alone(versions, f"{field}.apiVersions", "API versions")
    errors += [required(f"{field}.apiVersions[{index}]") for index, one in enumerate(versions) if not one]
    errors += _resources(rule.get("resources", []), f"{field}.resources")
    return errors + _one_of(rule, field, "scope", SCOPES)


def _alone(values: list[str], field: str, what: str) -> list[FieldError]:
    """At least one value, and a star only by itself."""
    if not values:
        return [required(field)]
    if len(values) > 1 and "*" in values:
        return [invalid(field, values, f"if '*' is present, must not specify other {what}")]
    return []


def _resources(resources: list[str], field: str) -> list[FieldError]:
    errors = [] if resources else [required(field)]
    whole: set[str] = set()  # of these, every subresource is meant
    everywhere: set[str] = set()  # these, of every resource
    for index, text in enumerate(resources):
        here = f"{field}[{index}]"
        if not text:
            errors.append(required(here))
        resource, slash, subresource = text.partition("/")
        if not slash:
            continue
        if resource in whole:
            errors.append(invalid(here, text, f"if '{resource}/*' is present, must not specify {text}"))
        if subresource in everywhere:
            errors.append(invalid(here, text, f"if '*/{subresource}' is present, must not specify {text}"))
        whole |= {resource} if subresource == "*" else set()
        everywhere |= {subresource} if resource == "*" else set()
    return errors + _stars(resources, field)


def _stars(resources: list[str], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(field, resources, "if '*/*' is present, must not specify other resources"))
    plain = [text for text in resources if text and "/" not in text]
    if "*" in plain and plain[-1] != "*":
        text = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(field, resources, text))
    return errors
