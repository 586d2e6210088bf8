"""The admissionregistration group: which admission webhooks the server calls for which requests, and policies by
expression.

Three rules were added after webhook configurations. An update of a configuration that already violates one of them may
keep violating it (ratcheting validation). Policies are stored as v1, whatever versions are served; their expressions
are compiled with every write (`admission_expressions`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from rewound.actors.golang.format import Formatted, format_value
from rewound.actors.kinds.declaration.columns import AGE, NAME, Column, at, size_of
from rewound.actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    Deletion,
    DiscoveryNames,
    Storage,
    Strategy,
    Table,
    bump_generation,
    keep_status_and_bump_generation,
    reset_status_and_generation,
    status_subresource,
)
from rewound.actors.kinds.declaration.meta import (
    CONDITION,
    LABEL_SELECTOR,
    METADATA,
    label_selector_rules,
    metadata_rules,
)
from rewound.actors.kinds.declaration.meta import condition_rules as status_condition_rules
from rewound.actors.kinds.declaration.webhook_client import service_rules, url_rules
from rewound.actors.kinds.schema.fields import (
    BYTES,
    INT32,
    INT64,
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
    forbidden,
    invalid,
    name_is_path_segment,
    name_is_subdomain,
    not_supported,
    qualified_name,
    required,
    reworded,
    size,
    too_many,
    undecided,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.background_import import is_imported
from rewound.actors.runtime.time_limit import need_thread
from rewound.actors.versions.features import IDENTIFIER_TEXT, MATCH_RESOURCES_NAMED, PARAM_SELECTORS
from rewound.actors.versions.features import VALIDATION_ACTIONS as ACTIONS_OF_BINDINGS

if TYPE_CHECKING:
    from rewound.actors.kinds.admission_expressions import Compiler

MakeCompiler = Callable[[], "Compiler"]

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


def _match_condition(version: str) -> Struct:
    return Struct(
        f"admissionregistration.{version}.MatchCondition",
        Field("name", STRING, 1, required=True, always=True),
        Field("expression", STRING, 2, required=True, always=True),
    )


def _match_conditions(condition: Struct, number: int, *, gate: str = "") -> Field:
    return Field(
        "matchConditions",
        ListOf(condition),
        number,
        patch="merge",
        merge_key="name",
        list_type="map",
        list_keys=("name",),
        since="1.27",
        gate=gate,
    )


WEBHOOK_CONDITIONS: Final = "AdmissionWebhookMatchConditions"
MATCH_CONDITION = _match_condition("v1")
MUTATING = _webhook(
    "Mutating",
    11,
    Field("reinvocationPolicy", STRING, 10, pointer=True, default="Never"),
    _match_conditions(MATCH_CONDITION, 12, gate=WEBHOOK_CONDITIONS),
)
VALIDATING = _webhook("Validating", 10, _match_conditions(MATCH_CONDITION, 11, gate=WEBHOOK_CONDITIONS))


def declare(names: Names, features: frozenset[str]) -> tuple[Definition, ...]:
    return (
        _define(names, features, "Mutating", MUTATING),
        _define(names, features, "Validating", VALIDATING),
        *_define_policies(names, features),
    )


# The results that expressions may have.
BOOLEAN: Final = ("bool",)
TEXT: Final = ("string",)
TEXT_OR_NULL: Final = ("string", "null_type")
PATCHES: Final = ("list(JSONPatch)",)
OBJECT: Final = ("Object",)


def new_compiler(
    names: Names, features: frozenset[str], *, has_params: bool, variables: bool = False
) -> Compiler:
    """Return a compiler of expressions. CEL is imported with the first one, in a worker thread."""
    if not is_imported("rewound.actors.kinds.admission_expressions", "messages_of_requests"):
        need_thread()
    from rewound.actors.kinds.admission_expressions import Compiler

    return Compiler(names, features, has_params=has_params, variables=variables)


def _define(names: Names, features: frozenset[str], kind: str, webhook: Struct) -> Definition:
    group = names.group("admissionregistration")
    configuration = f"{kind}WebhookConfiguration"
    compiler = partial(new_compiler, names, features, has_params=False)
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
            validate_create=partial(rules, compiler=compiler, options=ALL_RULES),
            validate_update=partial(update_rules, compiler=compiler),
        ),
    )


def prepare_create(new: Object) -> None:
    new["metadata"]["generation"] = 1


class ValidationOptions(msgspec.Struct, frozen=True):
    """Which of the ratcheting rules apply to a configuration."""

    require_no_side_effects: bool = True
    require_recognized_version: bool = True
    require_unique_names: bool = True
    check_conditions: bool = True
    stored_conditions: frozenset[str] = frozenset()  # expressions that the configuration already has


ALL_RULES: Final = ValidationOptions()


def rules(errors: FieldErrors, new: Object, *, compiler: MakeCompiler, options: ValidationOptions) -> None:
    seen: set[str] = set()
    for index, hook in enumerate(new.get("webhooks", ())):
        field, name = f"webhooks[{index}]", hook["name"]
        _hook(errors, hook, field, NO_SIDE_EFFECTS if options.require_no_side_effects else SIDE_EFFECTS)
        if options.check_conditions and "matchConditions" in hook:
            here = f"{field}.matchConditions"
            condition_rules(errors, hook["matchConditions"], compiler(), here, options.stored_conditions)
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


def update_rules(errors: FieldErrors, new: Object, old: Object, *, compiler: MakeCompiler) -> None:
    hooks = old.get("webhooks", [])
    options = ValidationOptions(
        all(hook["sideEffects"] in NO_SIDE_EFFECTS for hook in hooks),
        all(
            _has_recognized_version(hook["admissionReviewVersions"] or list(REVIEW_VERSIONS))
            for hook in hooks
        ),
        len({hook["name"] for hook in hooks}) == len(hooks),
        _conditions_of(hooks) != _conditions_of(new.get("webhooks", [])),
        frozenset(one["expression"] for hook in hooks for one in hook.get("matchConditions") or ()),
    )
    metadata_rules(
        errors, new["metadata"], namespaced=False, check_name=name_is_subdomain, known_finalizers=False
    )
    rules(errors, new, compiler=compiler, options=options)


def _conditions_of(hooks: list[Object]) -> list[object]:
    return [hook.get("matchConditions") for hook in hooks]


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


VALIDATION_ACTIONS: Final = ("Audit", "Deny", "Warn")
VALIDATION_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
MUTATED_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")
NOT_FOUND_ACTIONS: Final = ("Deny", "Allow")
MOST_CONDITIONS: Final = 64
MOST_ANNOTATIONS: Final = 20
LONGEST_VALUE_EXPRESSION: Final = 5 * 1024
UNSET: Final = "<unset>"
_is_identifier = re.compile("[_a-zA-Z][_a-zA-Z0-9]*").fullmatch
_RESERVED: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)


class _PolicyStructs:
    """The types of policies and their bindings in one version of the group."""

    def __init__(self, version: str) -> None:
        self._prefix = f"admissionregistration.{version}"
        conditions = _match_condition(version) if version != "v1" else MATCH_CONDITION
        kind = self._struct(
            "ParamKind", Field("apiVersion", STRING, 1), Field("kind", STRING, 2), atomic=True
        )
        self.status = self._status()
        resources, reference = self._match_resources(), self._param_ref(version)
        variable = self._struct(
            "Variable",
            Field("name", STRING, 1, required=True, always=True),
            Field("expression", STRING, 2, required=True, always=True),
            atomic=True,
        )
        common = (
            Field("paramKind", kind, 1, pointer=True),
            Field("matchConstraints", resources, 2, pointer=True),
        )
        self.validating = self._kind(
            "ValidatingAdmissionPolicy",
            *common,
            Field(
                "validations",
                ListOf(self._validation()),
                3,
                list_type="atomic",
                before=(Before("1.27", required=True, always=True),),
            ),
            Field("failurePolicy", STRING, 4, pointer=True, default="Fail"),
            Field("auditAnnotations", ListOf(self._audit_annotation()), 5, list_type="atomic", since="1.27"),
            _match_conditions(conditions, 6),
            Field(
                "variables",
                ListOf(variable),
                7,
                patch="merge",
                merge_key="name",
                list_type="map",
                list_keys=("name",),
                since="1.28",
            ),
            status=self.status,
        )
        self.mutating = self._kind(
            "MutatingAdmissionPolicy",
            *common,
            Field("variables", ListOf(variable), 3, list_type="atomic"),
            Field("mutations", ListOf(self._mutation()), 4, list_type="atomic"),
            Field("failurePolicy", STRING, 5, pointer=True, default="Fail"),
            _match_conditions(conditions, 6),
            Field("reinvocationPolicy", STRING, 7),
        )
        binding = (
            Field("policyName", STRING, 1),
            Field("paramRef", reference, 2, pointer=True),
            Field("matchResources", resources, 3, pointer=True),
        )
        actions = Field("validationActions", STRINGS, 4, list_type="set", since="1.27")
        if version == "v1":
            # Declarative validation made them required.
            later = (Before("1.36", required=False),)
            required_fields = (
                replace(binding[0], required=True, before=later),
                *binding[1:],
                replace(actions, required=True, before=later),
            )
            self.validating_binding = self._kind("ValidatingAdmissionPolicyBinding", *required_fields)
        else:
            self.validating_binding = self._kind("ValidatingAdmissionPolicyBinding", *binding, actions)
        self.mutating_binding = self._kind("MutatingAdmissionPolicyBinding", *binding)

    def _struct(self, name: str, *fields: Field, atomic: bool = False) -> Struct:
        return Struct(f"{self._prefix}.{name}", *fields, atomic=atomic)

    def _kind(self, kind: str, *spec: Field, status: Struct | None = None) -> Struct:
        fields = [METADATA, Field("spec", self._struct(f"{kind}Spec", *spec), 2)]
        if status is not None:
            fields.append(Field("status", status, 3, since="1.27"))
        return self._struct(kind, *fields)

    def _match_resources(self) -> Struct:
        rule = self._struct(
            "NamedRuleWithOperations",
            Field("resourceNames", STRINGS, 1, list_type="atomic"),
            *(replace(one, before=(), embedded=2, embedded_inside=one.embedded) for one in RULE.fields),
            atomic=True,
        )
        return self._struct(
            "MatchResources",
            Field("namespaceSelector", LABEL_SELECTOR, 1, pointer=True, default=dict),
            Field("objectSelector", LABEL_SELECTOR, 2, pointer=True, default=dict),
            Field("resourceRules", ListOf(rule), 3, list_type="atomic"),
            Field("excludeResourceRules", ListOf(rule), 4, list_type="atomic"),
            Field("matchPolicy", STRING, 7, pointer=True, default="Equivalent"),
            atomic=True,
        )

    def _param_ref(self, version: str) -> Struct:
        action = Field("parameterNotFoundAction", STRING, 4, pointer=True, since="1.28")
        return self._struct(
            "ParamRef",
            Field("name", STRING, 1),
            Field("namespace", STRING, 2),
            Field("selector", LABEL_SELECTOR, 3, pointer=True, since="1.28"),
            replace(action, default="Deny") if version == "v1alpha1" else action,
            atomic=True,
        )

    def _validation(self) -> Struct:
        return self._struct(
            "Validation",
            Field("expression", STRING, 1, required=True, always=True),
            Field("message", STRING, 2),
            Field("reason", STRING, 3, pointer=True),
            Field("messageExpression", STRING, 4, since="1.27"),
        )

    def _audit_annotation(self) -> Struct:
        return self._struct(
            "AuditAnnotation",
            Field("key", STRING, 1, required=True, always=True),
            Field("valueExpression", STRING, 2, required=True, always=True),
        )

    def _mutation(self) -> Struct:
        expression = Field("expression", STRING, 1)
        return self._struct(
            "Mutation",
            Field("patchType", STRING, 2, required=True, always=True),
            Field("applyConfiguration", self._struct("ApplyConfiguration", expression), 3, pointer=True),
            Field("jsonPatch", self._struct("JSONPatch", expression), 4, pointer=True),
        )

    def _status(self) -> Struct:
        warning = self._struct(
            "ExpressionWarning",
            Field("fieldRef", STRING, 2, required=True, always=True),
            Field("warning", STRING, 3, required=True, always=True),
        )
        checking = self._struct(
            "TypeChecking", Field("expressionWarnings", ListOf(warning), 1, list_type="atomic")
        )
        return self._struct(
            "ValidatingAdmissionPolicyStatus",
            Field("observedGeneration", INT64, 1),
            Field("typeChecking", checking, 2, pointer=True),
            Field("conditions", ListOf(CONDITION), 3, list_type="map", list_keys=("type",)),
        )


_SAME_FIELDS: Final = Conversion(to_storage=dict, from_storage=dict)
# The versions of the group in which policies of each kind are served: since, until.
_SERVED: Final = {
    "Validating": {"v1": ("1.30", ""), "v1beta1": ("1.28", "1.33"), "v1alpha1": ("1.26", "1.31")},
    "Mutating": {"v1": ("1.36", ""), "v1beta1": ("1.34", ""), "v1alpha1": ("1.32", "")},
}


def _define_policies(names: Names, features: frozenset[str]) -> Iterator[Definition]:
    for version in ("v1", "v1beta1", "v1alpha1"):
        structs = _PolicyStructs(version)
        validating = PolicyRules(names, features, mutates=False)
        mutating = PolicyRules(names, features, mutates=True)
        yield _policy(names, "Validating", version, structs.validating, validating, structs.status)
        yield _policy_binding(names, "Validating", version, structs.validating_binding)
        yield _policy(names, "Mutating", version, structs.mutating, mutating)
        yield _policy_binding(names, "Mutating", version, structs.mutating_binding)


def _policy_kind(names: Names, kind: str, suffix: str, version: str, **more: Any) -> Definition:
    group, name = names.group("admissionregistration"), f"{kind}AdmissionPolicy{suffix}"
    plural = f"{kind.lower()}admissionpolic{'ybindings' if suffix else 'ies'}"
    since, until = _SERVED[kind][version]
    view = Storage(stored_as=f"{plural}.{group}", conversion=_SAME_FIELDS)
    return Definition(
        group=group,
        version=version,
        kind=name,
        plural=plural,
        names=DiscoveryNames(categories=("api-extensions",)),
        namespaced=False,
        check_name=name_is_subdomain,
        deletion=Deletion(only_known_finalizers=False),
        since=since,
        until=until,
        gate=f"{kind}AdmissionPolicy",
        on_by_default=version == "v1",
        announces_end=(kind, version) != ("Validating", "v1alpha1"),
        storage=Storage() if version == "v1" else view,
        **more,
    )


def _policy(
    names: Names,
    kind: str,
    version: str,
    fields: Struct,
    policy_rules: PolicyRules,
    status: Struct | None = None,
) -> Definition:
    counted = "mutations" if kind == "Mutating" else "validations"
    columns = (
        NAME,
        Column(
            counted.capitalize(),
            "integer",
            f"Number of {counted}.",
            lambda stored, _: len(stored["spec"].get(counted) or ()),
        ),
        Column("ParamKind", "string", "Kind of the parameters.", _param_kind_cell),
        AGE,
    )
    prepare: Callable[[Object], None] = prepare_create
    if status is not None:
        prepare = partial(reset_status_and_generation, status)
    return _policy_kind(
        names,
        kind,
        "",
        version,
        fields=fields,
        table=Table(columns),
        subresources=()
        if status is None
        else (replace(status_subresource(policy_status_rules), since="1.27"),),
        strategy=Strategy(
            allow_unconditional_update=False,
            prepare_for_create=prepare,
            prepare_for_update=bump_generation if status is None else keep_status_and_bump_generation,
            validate_create=policy_rules.create,
            validate_update=policy_rules.update,
        ),
    )


def _policy_binding(names: Names, kind: str, version: str, fields: Struct) -> Definition:
    validate = partial(binding_rules, mutates=kind == "Mutating")

    def update(errors: FieldErrors, new: Object, _: Object) -> None:
        metadata_rules(
            errors, new["metadata"], namespaced=False, check_name=name_is_subdomain, known_finalizers=False
        )
        validate(errors, new)

    columns = (
        NAME,
        Column("PolicyName", "string", "Policy that is bound.", at("spec", "policyName")),
        Column("ParamRef", "string", "Parameters of the policy.", _param_ref_cell),
        AGE,
    )
    return _policy_kind(
        names,
        kind,
        "Binding",
        version,
        fields=fields,
        table=Table(columns),
        strategy=Strategy(
            allow_unconditional_update=False,
            prepare_for_create=prepare_create,
            prepare_for_update=bump_generation,
            validate_create=validate,
            validate_update=update,
        ),
    )


def _param_kind_cell(stored: Object, _: int) -> str:
    kind = stored["spec"].get("paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_ref_cell(stored: Object, _: int) -> str:
    reference = stored["spec"].get("paramRef") or {}
    if name := reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{name}"
    if selector := reference.get("selector"):
        labels = ",".join(f"{key}: {value}," for key, value in (selector.get("matchLabels") or {}).items())
        return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[],}}"
    return UNSET


class StoredExpressions(NamedTuple):
    """The expressions that a policy already has: they may use more than new ones."""

    conditions: frozenset[str] = frozenset()
    validations: frozenset[str] = frozenset()
    messages: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()
    mutations: frozenset[str] = frozenset()  # only apply configurations, as in Kubernetes

    @classmethod
    def of(cls, spec: Object) -> StoredExpressions:
        def every(part: str, name: str) -> frozenset[str]:
            return frozenset(one.get(name, "") for one in spec.get(part) or ())

        applied = (one.get("applyConfiguration") for one in spec.get("mutations") or ())
        return cls(
            every("matchConditions", "expression"),
            every("validations", "expression"),
            every("validations", "messageExpression"),
            every("auditAnnotations", "valueExpression"),
            frozenset(one.get("expression", "") for one in applied if one is not None),
        )


NOTHING_STORED: Final = StoredExpressions()


class PolicyRules:
    """The rules of policies that validate or mutate."""

    def __init__(self, names: Names, features: frozenset[str], *, mutates: bool) -> None:
        self._compiler = partial(new_compiler, names, features)
        self._identifier_text = (
            "must be a valid CEL identifier"
            if IDENTIFIER_TEXT in features
            else "name is not a valid CEL identifier"
        )
        self._mutates = mutates

    def update(self, errors: FieldErrors, new: Object, old: Object) -> None:
        metadata_rules(
            errors, new["metadata"], namespaced=False, check_name=name_is_subdomain, known_finalizers=False
        )
        parts = ("paramKind", "matchConditions")
        same = all(new["spec"].get(part) == old["spec"].get(part) for part in parts)
        self._spec(errors, new, StoredExpressions.of(old["spec"]), conditions=not same)

    def create(self, errors: FieldErrors, new: Object) -> None:
        self._spec(errors, new, NOTHING_STORED, conditions=True)

    def _spec(self, errors: FieldErrors, new: Object, stored: StoredExpressions, *, conditions: bool) -> None:
        spec = new["spec"]
        has_params = "paramKind" in spec
        if spec["failurePolicy"] not in FAILURE_POLICIES:
            errors.add(not_supported("spec.failurePolicy", spec["failurePolicy"], FAILURE_POLICIES))
        if has_params:
            _param_kind_rules(errors, spec["paramKind"], "spec.paramKind")
        constraints = spec.get("matchConstraints")
        if constraints is None:
            errors.add(required("spec.matchConstraints"))
        else:
            match_resources_rules(errors, constraints, "spec.matchConstraints")
            if not constraints.get("resourceRules"):
                errors.add(required("spec.matchConstraints.resourceRules"))
            if self._mutates:
                _mutated_operations_rules(errors, constraints, "spec.matchConstraints")
        if conditions:
            compiler = self._compiler(has_params=has_params)
            found, field = spec.get("matchConditions", ()), "spec.matchConditions"
            condition_rules(errors, found, compiler, field, stored.conditions)
        variables = spec.get("variables", ())
        compiler = self._compiler(has_params=has_params, variables=bool(variables) or self._mutates)
        for index, one in enumerate(variables):
            self._variable(errors, one, compiler, stored, f"spec.variables[{index}]")
        if self._mutates:
            self._mutations(errors, spec, compiler, stored)
        else:
            self._validations(errors, new, compiler, stored)

    def _variable(
        self,
        errors: FieldErrors,
        variable: Object,
        compiler: Compiler,
        stored: StoredExpressions,
        field: str,
    ) -> None:
        name, expression = variable["name"], variable["expression"]
        if not name.strip():
            errors.add(required(f"{field}.name", "name is not specified"))
        elif not _is_identifier(name) or name in _RESERVED:
            errors.add(invalid(f"{field}.name", name, self._identifier_text))
        if not expression.strip():
            errors.add(required(f"{field}.expression", "expression is not specified"))
        else:
            # As in Kubernetes, a variable may use more if a validation already had its expression.
            problem = compiler.declare(name, expression, stored=expression in stored.validations)
            _add_problem(errors, f"{field}.expression", expression, problem)

    def _mutations(
        self, errors: FieldErrors, spec: Object, compiler: Compiler, stored: StoredExpressions
    ) -> None:
        mutations = spec.get("mutations", ())
        if not mutations:
            errors.add(required("spec.mutations", "mutations must contain at least one item"))
        for index, one in enumerate(mutations):
            _mutation_rules(errors, one, compiler, stored, f"spec.mutations[{index}]")
        policy = spec.get("reinvocationPolicy", "")
        if not policy:
            errors.add(required("spec.reinvocationPolicy"))
        elif policy not in REINVOCATION_POLICIES:
            errors.add(not_supported("spec.reinvocationPolicy", policy, REINVOCATION_POLICIES))

    def _validations(
        self, errors: FieldErrors, new: Object, compiler: Compiler, stored: StoredExpressions
    ) -> None:
        spec, text = new["spec"], "validations or auditAnnotations must contain at least one item"
        validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations", ())
        if not validations and ACTIONS_OF_BINDINGS not in errors.features:  # nor has it annotations
            errors.add(required("spec.validations"))
        elif not validations and not annotations:
            errors.add(required("spec.validations", text))
            errors.add(required("spec.auditAnnotations", text))
        for index, one in enumerate(validations):
            _validation_rules(errors, one, compiler, stored, f"spec.validations[{index}]")
        if len(annotations) > MOST_ANNOTATIONS:
            text = f"must not have more than {MOST_ANNOTATIONS} auditAnnotations"
            errors.add(invalid("spec.auditAnnotations", annotations, text))
        seen: set[str] = set()
        for index, one in enumerate(annotations):
            field = f"spec.auditAnnotations[{index}]"
            name = new["metadata"].get("name", "")
            _audit_annotation_rules(errors, one, name, compiler, stored, field)
            if one["key"] in seen:
                errors.add(duplicate(f"{field}.key", one["key"]))
            seen.add(one["key"])


def policy_status_rules(errors: FieldErrors, new: Object, _: Object) -> None:
    status = new.get("status", {})
    warnings = (status.get("typeChecking") or {}).get("expressionWarnings", ())
    for index, one in enumerate(warnings):
        field = f"status.typeChecking.expressionWarnings[{index}]"
        if not one["warning"]:
            errors.add(required(f"{field}.warning"))
        if not one["fieldRef"].strip():
            errors.add(required(f"{field}.fieldRef"))
    status_condition_rules(errors, status.get("conditions", ()), "status.conditions")


def binding_rules(errors: FieldErrors, new: Object, *, mutates: bool) -> None:
    spec = new["spec"]
    policy = spec.get("policyName", "")
    if policy:
        errors.add_each("spec.policyName", policy, dns_subdomain(policy))
    else:
        errors.add(required("spec.policyName"))
    if "paramRef" in spec:
        _param_ref_rules(errors, spec["paramRef"], "spec.paramRef")
    resources = spec.get("matchResources")
    if resources is not None:
        name = "matchResources" if MATCH_RESOURCES_NAMED in errors.features or mutates else "matchResouces"
        match_resources_rules(errors, resources, f"spec.{name}")
        if mutates:
            _mutated_operations_rules(errors, resources, f"spec.{name}")
    if not mutates and ACTIONS_OF_BINDINGS in errors.features:
        _validation_action_rules(errors, spec.get("validationActions", []), "spec.validationActions")


def _validation_action_rules(errors: FieldErrors, actions: list[str], field: str) -> None:
    seen: set[str] = set()
    for index, one in enumerate(actions):
        if one not in VALIDATION_ACTIONS:
            errors.add(not_supported(f"{field}[{index}]", one, VALIDATION_ACTIONS))
        if one in seen:
            errors.add(duplicate(f"{field}[{index}]", one))
        seen.add(one)
    if {"Deny", "Warn"} <= seen:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        listed = ", ".join(format_value(one) for one in actions)
        shown = Formatted(f"[]admissionregistration.ValidationAction{{{listed}}}", actions)
        errors.add(invalid(field, shown, text))
    if not seen:
        errors.add(required(field, "at least one validation action is required"))


def _param_ref_rules(errors: FieldErrors, reference: Object, field: str) -> None:
    name, selector = reference.get("name", ""), reference.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        errors.add_each(f"{field}.name", name, name_is_path_segment(name, False))
        if selector is not None:
            errors.add(forbidden(f"{field}.name", exclusive))
    if PARAM_SELECTORS not in errors.features:
        return
    if selector is not None:
        label_selector_rules(errors, selector, f"{field}.selector")
        if name:
            errors.add(forbidden(f"{field}.selector", exclusive))
    if not name and selector is None:
        errors.add(required(field, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    if not action:
        errors.add(required(f"{field}.parameterNotFoundAction"))
    elif action not in NOT_FOUND_ACTIONS:
        errors.add(not_supported(f"{field}.parameterNotFoundAction", action, NOT_FOUND_ACTIONS))


def _param_kind_rules(errors: FieldErrors, kind: Object, field: str) -> None:
    api_version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    here = f"{field}.apiVersion"
    if not api_version:
        errors.add(required(here))
    elif api_version.count("/") > 1:
        errors.add(invalid(here, api_version, f"unexpected GroupVersion string: {api_version}"))
    else:
        group, _, version = ("", "", api_version) if "/" not in api_version else api_version.partition("/")
        if group and (wrong := dns_subdomain(group)):
            errors.add(invalid(here, group, ",".join(wrong)))
        if not version:
            errors.add(invalid(here, api_version, "version must be specified"))
        elif wrong := dns_1035_label(version):
            errors.add(invalid(here, version, ",".join(wrong)))
    if not name:
        errors.add(required(f"{field}.kind"))
    elif wrong := dns_1035_label(name.lower()):
        text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
        errors.add(invalid(f"{field}.kind", name, text))


def match_resources_rules(errors: FieldErrors, resources: Object, field: str) -> None:
    if resources["matchPolicy"] not in MATCH_POLICIES:
        errors.add(not_supported(f"{field}.matchPolicy", resources["matchPolicy"], MATCH_POLICIES))
    label_selector_rules(errors, resources["namespaceSelector"], f"{field}.namespaceSelector")
    label_selector_rules(errors, resources["objectSelector"], f"{field}.objectSelector")
    for part in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(resources.get(part, ())):
            _named_rule(errors, rule, f"{field}.{part}[{index}]")


def _named_rule(errors: FieldErrors, rule: Object, field: str) -> None:
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames", ())):
        errors.add_each(f"{field}.resourceNames[{index}]", name, name_is_path_segment(name, False))
        if name in seen:
            errors.add(duplicate(f"{field}.resourceNames[{index}]", name))
        seen.add(name)
    _rule(errors, rule, field)


def _mutated_operations_rules(errors: FieldErrors, resources: Object, field: str) -> None:
    for rule in resources.get("resourceRules", ()):
        for one in rule.get("operations", ()):
            if one not in MUTATED_OPERATIONS:
                errors.add(not_supported(f"{field}.resourceRules.operations", one, MUTATED_OPERATIONS))


def condition_rules(
    errors: FieldErrors,
    conditions: Sequence[Object],
    compiler: Compiler,
    field: str,
    stored: frozenset[str] = frozenset(),
) -> None:
    if len(conditions) > MOST_CONDITIONS:
        errors.add(too_many(field, len(conditions), MOST_CONDITIONS))
    seen: set[str] = set()
    for index, one in enumerate(conditions):
        here, name = f"{field}[{index}]", one["name"]
        text = one["expression"].strip()
        _expression_rules(errors, text, compiler, BOOLEAN, f"{here}.expression", stored=text in stored)
        if not name:
            errors.add(required(f"{here}.name"))
        else:
            errors.add_each(f"{here}.name", name, qualified_name(name))
            if name in seen:
                errors.add(duplicate(f"{here}.name", name))
        seen.add(name)


def _expression_rules(
    errors: FieldErrors,
    text: str,
    compiler: Compiler,
    results: tuple[str, ...],
    field: str,
    missing: str = "",
    *,
    stored: bool = False,
) -> None:
    if not text.strip():
        errors.add(required(field, missing))
    else:
        _add_problem(errors, field, text, compiler.problem(text, results, stored=stored))


def _add_problem(errors: FieldErrors, field: str, text: str, problem: str) -> None:
    if problem.startswith("program instantiation failed: "):
        errors.add(undecided(field, problem))
    elif problem:
        errors.add(invalid(field, text, problem))


def _validation_rules(
    errors: FieldErrors, validation: Object, compiler: Compiler, stored: StoredExpressions, field: str
) -> None:
    here, missing, text = f"{field}.expression", "expression is not specified", validation["expression"]
    is_stored = text in stored.validations
    _expression_rules(errors, text, compiler, BOOLEAN, here, missing, stored=is_stored)
    by_expression, message = validation.get("messageExpression", ""), validation.get("message", "")
    if by_expression and not by_expression.strip():
        errors.add(invalid(f"{field}.messageExpression", by_expression, "must be non-empty if specified"))
    elif by_expression:
        is_stored = by_expression in stored.messages
        problem = compiler.problem(by_expression, TEXT, stored=is_stored, authorizer=False)
        _add_problem(errors, f"{field}.messageExpression", by_expression, problem)
    if message and not message.strip():
        errors.add(invalid(f"{field}.message", message, _about_message("must be non-empty if specified")))
    elif re.search(r"[\n\r]", message.strip()):
        errors.add(invalid(f"{field}.message", message, _about_message("must not contain line breaks")))
    reason = validation.get("reason")
    if reason is not None and reason not in VALIDATION_REASONS:
        errors.add(not_supported(f"{field}.reason", reason, VALIDATION_REASONS))


def _about_message(text: str) -> str:
    return reworded(f"message {text}", IDENTIFIER_TEXT, text)


def _audit_annotation_rules(
    errors: FieldErrors,
    annotation: Object,
    policy: str,
    compiler: Compiler,
    stored: StoredExpressions,
    field: str,
) -> None:
    if policy:
        key = f"{policy}/{annotation['key']}"
        errors.add_each(f"{field}.key", key, qualified_name(key))
    else:
        errors.add(invalid(f"{field}.key", annotation["key"], "requires metadata.name be non-empty"))
    text, here = annotation["valueExpression"], f"{field}.valueExpression"
    if size(text.strip()) > LONGEST_VALUE_EXPRESSION:
        errors.add(required(here, f"must not exceed {LONGEST_VALUE_EXPRESSION} bytes in length"))
    elif not text.strip():
        errors.add(required(here, "valueExpression is not specified"))
    else:
        is_stored = text in stored.annotations
        _add_problem(errors, here, text, compiler.problem(text.strip(), TEXT_OR_NULL, stored=is_stored))


_PATCHES: Final = {
    "JSONPatch": ("jsonPatch", "applyConfiguration", PATCHES),
    "ApplyConfiguration": ("applyConfiguration", "jsonPatch", OBJECT),
}


def _mutation_rules(
    errors: FieldErrors, mutation: Object, compiler: Compiler, stored: StoredExpressions, field: str
) -> None:
    kind = mutation["patchType"]
    if not kind:
        errors.add(required(f"{field}.patchType"))
        return
    if kind not in _PATCHES:
        errors.add(not_supported(f"{field}.patchType", kind, tuple(sorted(_PATCHES))))
        return
    part, other, results = _PATCHES[kind]
    if part not in mutation:
        errors.add(required(f"{field}.{part}", f"must be specified when patchType is {kind}"))
    else:
        text = mutation[part].get("expression", "")
        here, is_stored = f"{field}.{part}.expression", text in stored.mutations
        _expression_rules(errors, text.strip(), compiler, results, here, stored=is_stored)
    if other in mutation:
        text = f"must not be specified when patchType is {kind}"
        errors.add(invalid(f"{field}.{other}", f"{{{other}}}", text))
