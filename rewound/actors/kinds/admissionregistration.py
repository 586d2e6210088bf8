"""The admissionregistration group: which admission webhooks the server calls for which requests.

Three rules were added after the kinds. An update of a configuration that already violates one of them may keep
violating it (ratcheting validation).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, size_of
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Strategy,
    Table,
    bump_generation,
)
from rewound.actors.kinds.declaration.meta import (
    LABEL_SELECTOR,
    METADATA,
    label_selector_rules,
    metadata_rules,
)
from rewound.actors.kinds.declaration.webhook_client import service_rules, url_rules
from rewound.actors.kinds.schema.fields import (
    BYTES,
    INT32,
    STRING,
    STRINGS,
    UNTYPED_BEFORE_1_30,
    Before,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.validation import (
    FieldErrors,
    dns_1035_label,
    dns_subdomain,
    duplicate,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names

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
    Field("operations", STRINGS, 1, list_type="atomic", before=(Before("1.26", list_type=""),)),
    Field("apiGroups", STRINGS, 1, embedded=2, list_type="atomic", before=(Before("1.26", list_type=""),)),
    Field("apiVersions", STRINGS, 2, embedded=2, list_type="atomic", before=(Before("1.26", list_type=""),)),
    Field("resources", STRINGS, 3, embedded=2, list_type="atomic", before=(Before("1.26", list_type=""),)),
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
        Field("rules", ListOf(RULE), 3, list_type="atomic", before=UNTYPED_BEFORE_1_30),
        Field("failurePolicy", STRING, 4, pointer=True, default="Fail"),
        Field("matchPolicy", STRING, 9, pointer=True, default="Equivalent"),
        Field("namespaceSelector", LABEL_SELECTOR, 5, pointer=True, default=dict),
        Field("objectSelector", LABEL_SELECTOR, object_selector, pointer=True, default=dict),
        Field("sideEffects", STRING, 6, required=True, pointer=True, always=True),
        Field("timeoutSeconds", INT32, 7, pointer=True, default=10),
        Field(
            "admissionReviewVersions",
            STRINGS,
            8,
            required=True,
            always=True,
            list_type="atomic",
            before=UNTYPED_BEFORE_1_30,
        ),
        *more,
    )


MUTATING = _webhook("Mutating", 11, Field("reinvocationPolicy", STRING, 10, pointer=True, default="Never"))
VALIDATING = _webhook("Validating", 10)


def declare(names: Names) -> tuple[Definition, ...]:
    group = names.group("admissionregistration")
    return _define(group, "Mutating", MUTATING), _define(group, "Validating", VALIDATING)


def _define(group: str, kind: str, webhook: Struct) -> Definition:
    configuration = f"{kind}WebhookConfiguration"
    fields = Struct(
        f"admissionregistration.v1.{configuration}",
        METADATA,
        Field(
            "webhooks",
            ListOf(webhook),
            2,
            patch="merge",
            merge_key="name",
            list_type="map",
            list_keys=("name",),
            before=UNTYPED_BEFORE_1_30,
        ),
    )
    return Definition(
        group=group,
        version="v1",
        kind=configuration,
        plural=f"{configuration.lower()}s",
        names=DiscoveryNames(categories=("api-extensions",)),
        namespaced=False,
        check_name=name_is_subdomain,
        fields=fields,
        deletion=Deletion(only_known_finalizers=False),
        table=Table((NAME, Column("Webhooks", "integer", "Number of webhooks.", size_of("webhooks")), AGE)),
        strategy=Strategy(
            allow_unconditional_update=False,
            prepare_for_create=prepare_create,
            prepare_for_update=lambda new, old: bump_generation(new, old, "webhooks"),
            validate_create=partial(rules, options=ALL_RULES),
            validate_update=update_rules,
        ),
    )


def prepare_create(new: Object) -> None:
    new["metadata"]["generation"] = 1


@dataclass(frozen=True, slots=True)
class ValidationOptions:
    """Which of the ratcheting rules apply to a configuration."""

    require_no_side_effects: bool = True
    require_recognized_version: bool = True
    require_unique_names: bool = True


ALL_RULES: Final = ValidationOptions()


def rules(errors: FieldErrors, new: Object, options: ValidationOptions) -> None:
    seen: set[str] = set()
    for index, hook in enumerate(new.get("webhooks", ())):
        field, name = f"webhooks[{index}]", hook["name"]
        _hook(errors, hook, field, NO_SIDE_EFFECTS if options.require_no_side_effects else SIDE_EFFECTS)
        versions = hook["admissionReviewVersions"] or []
        _versions(
            errors,
            versions,
            f"{field}.admissionReviewVersions",
            recognized=options.require_recognized_version,
        )
        if options.require_unique_names and name in seen:
            errors.add(duplicate(f"{field}.name", name))
        seen |= {name} if name else set()


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    hooks = old.get("webhooks", [])
    options = ValidationOptions(
        all(hook["sideEffects"] in NO_SIDE_EFFECTS for hook in hooks),
        all(
            _has_recognized_version(hook["admissionReviewVersions"] or list(REVIEW_VERSIONS))
            for hook in hooks
        ),
        len({hook["name"] for hook in hooks}) == len(hooks),
    )
    metadata_rules(
        errors, new["metadata"], namespaced=False, check_name=name_is_subdomain, known_finalizers=False
    )
    rules(errors, new, options)


def _hook(errors: FieldErrors, hook: Object, field: str, side_effects: tuple[str, ...]) -> None:
    _name(errors, hook["name"], f"{field}.name")
    for index, rule in enumerate(hook.get("rules", ())):
        _rule(errors, rule, f"{field}.rules[{index}]")
    _one_of(errors, hook, field, "failurePolicy", FAILURE_POLICIES)
    _one_of(errors, hook, field, "matchPolicy", MATCH_POLICIES)
    if hook["sideEffects"] is None:
        text = f"must specify one of {', '.join(side_effects)}"
        errors.add(required(f"{field}.sideEffects", text))
    else:
        _one_of(errors, hook, field, "sideEffects", side_effects)
    seconds = hook["timeoutSeconds"]
    if not SHORTEST_TIMEOUT <= seconds <= LONGEST_TIMEOUT:
        text = f"the timeout value must be between {SHORTEST_TIMEOUT} and {LONGEST_TIMEOUT} seconds"
        errors.add(invalid(f"{field}.timeoutSeconds", seconds, text))
    label_selector_rules(errors, hook["namespaceSelector"], f"{field}.namespaceSelector")
    label_selector_rules(errors, hook["objectSelector"], f"{field}.objectSelector")
    if "reinvocationPolicy" in hook:
        _one_of(errors, hook, field, "reinvocationPolicy", REINVOCATION_POLICIES)
    _client_config(errors, hook["clientConfig"], f"{field}.clientConfig")


def _one_of(errors: FieldErrors, hook: Object, field: str, part: str, supported: tuple[str, ...]) -> None:
    value = hook[part]
    if value not in supported:
        errors.add(not_supported(f"{field}.{part}", value, supported))


def _name(errors: FieldErrors, name: str, field: str) -> None:
    if not name:
        errors.add(required(field))
        return
    wrong = dns_subdomain(name)
    if wrong:
        errors.add(invalid(field, name, ",".join(wrong)))
        return
    if name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        errors.add(invalid(field, name, text))


def _client_config(errors: FieldErrors, config: Object, field: str) -> None:
    url, service = config.get("url"), config.get("service")
    if (url is None) is (service is None):
        errors.add(required(field, "exactly one of url or service is required"))
        return
    if url is not None:
        url_rules(errors, url, f"{field}.url")
        return
    assert service is not None
    # As in Kubernetes, the error for a missing name names the field `namespace`, and the reverse.
    name, namespace = service["namespace"], service["name"]
    service_rules(errors, name, namespace, service.get("path"), service["port"], f"{field}.service")


def _versions(errors: FieldErrors, versions: list[str], field: str, *, recognized: bool) -> None:
    if not versions:
        errors.add(required(field, f"must specify one of {', '.join(REVIEW_VERSIONS)}"))
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            errors.add(invalid(f"{field}[{index}]", version, "duplicate version"))
        else:
            errors.add_each(f"{field}[{index}]", version, dns_1035_label(version))
        seen.add(version)
    if recognized and not _has_recognized_version(versions):
        text = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        errors.add(invalid(field, versions, text))


def _has_recognized_version(versions: list[str]) -> bool:
    return not set(REVIEW_VERSIONS).isdisjoint(versions)


def _rule(errors: FieldErrors, rule: Object, field: str) -> None:
    operations = rule.get("operations", [])
    _list_rules(errors, operations, f"{field}.operations", "operations")
    for index, one in enumerate(operations):
        if one not in OPERATIONS:
            errors.add(not_supported(f"{field}.operations[{index}]", one, OPERATIONS))
    _list_rules(errors, rule.get("apiGroups", []), f"{field}.apiGroups", "API groups")
    versions = rule.get("apiVersions", [])
    _list_rules(errors, versions, f"{field}.apiVersions", "API versions")
    for index, one in enumerate(versions):
        if not one:
            errors.add(required(f"{field}.apiVersions[{index}]"))
    _resources(errors, rule.get("resources", []), f"{field}.resources")
    _one_of(errors, rule, field, "scope", SCOPES)


def _list_rules(errors: FieldErrors, values: list[str], field: str, what: str) -> None:
    """The list has at least one value; '*' is allowed only as the single value."""
    if not values:
        errors.add(required(field))
        return
    if len(values) > 1 and "*" in values:
        errors.add(invalid(field, values, f"if '*' is present, must not specify other {what}"))


def _resources(errors: FieldErrors, resources: list[str], field: str) -> None:
    if not resources:
        errors.add(required(field))
    with_all_subresources: set[str] = set()  # resources listed as "resource/*"
    of_all_resources: set[str] = set()  # subresources listed as "*/subresource"
    for index, text in enumerate(resources):
        here = f"{field}[{index}]"
        if not text:
            errors.add(required(here))
        resource, slash, subresource = text.partition("/")
        if not slash:
            continue
        if resource in with_all_subresources:
            errors.add(invalid(here, text, f"if '{resource}/*' is present, must not specify {text}"))
        if subresource in of_all_resources:
            errors.add(invalid(here, text, f"if '*/{subresource}' is present, must not specify {text}"))
        with_all_subresources |= {resource} if subresource == "*" else set()
        of_all_resources |= {subresource} if resource == "*" else set()
    _wildcards(errors, resources, field)


def _wildcards(errors: FieldErrors, resources: list[str], field: str) -> None:
    if len(resources) > 1 and "*/*" in resources:
        errors.add(invalid(field, resources, "if '*/*' is present, must not specify other resources"))
    without_subresource = [text for text in resources if text and "/" not in text]
    if "*" in without_subresource and without_subresource[-1] != "*":
        text = "if '*' is present, must not specify other resources without subresources"
        errors.add(invalid(field, resources, text))
