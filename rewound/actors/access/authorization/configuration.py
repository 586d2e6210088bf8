"""What `--authorization-config` configures: the authorizers in their order, and every webhook with its own settings.

    apiVersion: apiserver.config.cluster.io/v1
    kind: AuthorizationConfiguration
    authorizers:
      - {type: Webhook, name: roles-of-company, webhook: {...}}
      - {type: RBAC, name: rbac}

`structs_of_file` declares the file for `server/configuration_file.py`, which decodes it; `check_configuration`
validates the decoded file with the texts of Kubernetes, and returns the configuration. Only servers with such a
file import this module, and with it CEL.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rewound.actors.access.authorization.match_conditions import compile_conditions
from rewound.actors.access.authorization.modes import (
    MODES,
    WEBHOOK,
    AuthorizationConfiguration,
    AuthorizerConfiguration,
    WebhookConfiguration,
    name_of,
)
from rewound.actors.access.authorize import join_errors
from rewound.actors.cel.types import Environment
from rewound.actors.golang.format import format_value
from rewound.actors.golang.json import dumps
from rewound.actors.golang.quoting import quoted_list
from rewound.actors.kinds.schema.fields import BOOL, DURATION, STRING, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    FieldError,
    FieldErrors,
    TooManyErrors,
    duplicate,
    invalid,
    name_is_subdomain,
    not_supported,
    required,
)
from rewound.actors.kinds.values.times import duration_text, nanoseconds_of
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import (
    AUTHORIZATION_CONFIG_BETA,
    AUTHORIZATION_CONFIG_V1,
    JSON_IN_TEXTS,
    WEBHOOK_CACHE_SWITCHES,
)

KIND: Final = "AuthorizationConfiguration"
SCHEME: Final = "k8s.io/apiserver/pkg/apis/apiserver/load/load.go:32"
KUBECONFIG, IN_CLUSTER = "KubeConfigFile", "InClusterConfig"
_SECOND: Final = 10**9  # nanoseconds
_DEFAULT_TTL: Final = {"authorizedTTL": "5m", "unauthorizedTTL": "30s"}


class InvalidConfiguration(ValueError):
    """The configuration cannot be used; the text is that of Kubernetes."""


def structs_of_file(names: Names, features: frozenset[str]) -> dict[str, Struct]:
    """Return the types of the file by apiVersion, as the version of the server has them."""
    versions = {"v1": AUTHORIZATION_CONFIG_V1, "v1beta1": AUTHORIZATION_CONFIG_BETA, "v1alpha1": ""}
    group = names.group("apiserver.config")
    return {
        f"{group}/{version}": _struct(version, caches=WEBHOOK_CACHE_SWITCHES in features)
        for version, since in versions.items()
        if not since or since in features
    }


def _struct(version: str, *, caches: bool) -> Struct:
    switches = ("cacheAuthorizedRequests", "cacheUnauthorizedRequests") if caches else ()
    texts = ("subjectAccessReviewVersion", "matchConditionSubjectAccessReviewVersion", "failurePolicy")
    connection = Struct(
        "apiserver.WebhookConnectionInfo",
        Field("type", STRING, 0),
        Field("kubeConfigFile", STRING, 0, pointer=True),
    )
    condition = Struct("apiserver.WebhookMatchCondition", Field("expression", STRING, 0))
    webhook = Struct(
        "apiserver.WebhookConfiguration",
        *(Field(name, DURATION, 0) for name in ("timeout", *_DEFAULT_TTL)),
        *(Field(name, BOOL, 0, pointer=True) for name in switches),
        *(Field(name, STRING, 0) for name in texts),
        Field("connectionInfo", connection, 0),
        Field("matchConditions", ListOf(condition, go_name=f"[]{version}.{condition.name}"), 0),
    )
    authorizer = Struct(
        "apiserver.AuthorizerConfiguration",
        Field("type", STRING, 0),
        Field("name", STRING, 0),
        Field("webhook", webhook, 0, pointer=True),
    )
    authorizers = ListOf(authorizer, go_name=f"[]{version}.{authorizer.name}")
    return Struct(f"apiserver.{KIND}", Field("authorizers", authorizers, 0))


def check_configuration(
    found: Object, environment: Environment, features: frozenset[str], needed: Sequence[str] = ()
) -> AuthorizationConfiguration:
    """Validate a decoded file. Types in `needed` must be in it. Raises InvalidConfiguration.

    Match conditions are compiled in `environment`.
    """
    errors = FieldErrors(features)
    checked: list[AuthorizerConfiguration] = []
    try:
        checked += _authorizers(errors, found.get("authorizers") or (), environment)
    except TooManyErrors:
        pass
    if errors.found:
        raise InvalidConfiguration(join_errors([f"{one.field}: {one.message}" for one in errors.found]))
    wrong = [
        f"expected name {name_of(one.type)} for authorizer {one.type} instead of {one.name}"
        for one in checked
        if one.type != WEBHOOK and one.name != name_of(one.type)
    ]
    configuration = AuthorizationConfiguration(tuple(checked))
    missing = sorted({one for one in needed if one != WEBHOOK}.difference(configuration.types))
    if missing:
        wrong.append(f"missing required types: [{' '.join(missing)}]")
    if wrong:
        raise InvalidConfiguration(join_errors(wrong))
    return configuration


def _authorizers(
    errors: FieldErrors, entries: Sequence[Object], environment: Environment
) -> Iterator[AuthorizerConfiguration]:
    if not entries:
        errors.add(required("authorizers", "at least one authorization mode must be defined"))
    types: set[str] = set()
    names: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"authorizers[{index}]"
        type_, name, webhook = entry.get("type") or "", entry.get("name") or "", entry.get("webhook")
        if not type_:
            errors.add(required(f"{path}.type"))
        elif type_ not in MODES:
            errors.add(not_supported(f"{path}.type", type_, sorted(MODES)))
        elif type_ in types and type_ != WEBHOOK:
            errors.add(duplicate(f"{path}.type", type_))
        else:
            types.add(type_)
            _check_name(errors, f"{path}.name", name, names)
            names.add(name)
            if type_ != WEBHOOK and webhook is not None:
                errors.add(invalid(f"{path}.webhook", "non-null", "may only be specified when type=Webhook"))
            elif type_ == WEBHOOK and webhook is None:
                errors.add(required(f"{path}.webhook", "required when type=Webhook"))
            made = _webhook(errors, path, webhook, environment) if type_ == WEBHOOK and webhook else None
            yield AuthorizerConfiguration(type_, name, made)


def _check_name(errors: FieldErrors, path: str, name: str, names: set[str]) -> None:
    if not name:
        errors.add(required(path))
    elif name in names:
        errors.add(duplicate(path, name))
    elif wrong := name_is_subdomain(name, False):
        errors.add(invalid(path, name, f"authorizer name is invalid: {', '.join(wrong)}"))


def _webhook(
    errors: FieldErrors, path: str, given: Mapping[str, Any], environment: Environment
) -> WebhookConfiguration | None:
    """The paths of errors leave out `webhook`, as in Kubernetes."""
    before = len(errors.found)
    timeout = nanoseconds_of(given.get("timeout") or "0")
    if not timeout:
        errors.add(required(f"{path}.timeout"))
    elif not 0 < timeout <= 30 * _SECOND:
        errors.add(invalid(f"{path}.timeout", duration_text(timeout), "must be > 0s and <= 30s"))
    seconds: dict[str, float] = {}
    for name, default in _DEFAULT_TTL.items():
        ttl = nanoseconds_of(given.get(name) or "0") or nanoseconds_of(default)
        if ttl < 0:
            errors.add(invalid(f"{path}.{name}", duration_text(ttl), "must be > 0s"))
        switch = f"cache{name[0].upper()}{name[1:-3]}Requests"
        seconds[name] = ttl / _SECOND if given.get(switch) is not False else 0
    version = _choice(errors, path, given, "subjectAccessReviewVersion", ("v1", "v1beta1"))
    conditions = given.get("matchConditions") or ()
    _check_condition_version(errors, path, given, conditions)
    policy = _choice(errors, path, given, "failurePolicy", ("NoOpinion", "Deny"))
    kubeconfig = _connection(errors, f"{path}.connectionInfo", given.get("connectionInfo") or {})
    texts = [condition.get("expression") or "" for condition in conditions]
    compiled = compile_conditions(errors, f"{path}.matchConditions", texts, environment)
    if len(errors.found) > before:
        return None
    return WebhookConfiguration(
        Path(kubeconfig),
        version,
        timeout / _SECOND,
        authorized_ttl=seconds["authorizedTTL"],
        unauthorized_ttl=seconds["unauthorizedTTL"],
        denies_on_failure=policy == "Deny",
        conditions=compiled,
    )


def _choice(
    errors: FieldErrors, path: str, given: Mapping[str, Any], name: str, allowed: tuple[str, ...]
) -> str:
    value: str = given.get(name) or ""
    if not value:
        errors.add(required(f"{path}.{name}"))
    elif value not in allowed:
        errors.add(not_supported(f"{path}.{name}", value, allowed))
    return value


def _check_condition_version(
    errors: FieldErrors, path: str, given: Mapping[str, Any], conditions: Sequence[Any]
) -> None:
    name = "matchConditionSubjectAccessReviewVersion"
    if given.get(name):
        _choice(errors, path, given, name, ("v1",))
    elif conditions:
        errors.add(required(f"{path}.{name}", "required if match conditions are specified"))


def _connection(errors: FieldErrors, path: str, given: Mapping[str, Any]) -> str:
    type_, file = given.get("type") or "", given.get("kubeConfigFile")
    where = f"{path}.kubeConfigFile"
    if not type_:
        errors.add(required(f"{path}.type"))
    elif type_ == IN_CLUSTER:
        if file is not None:
            errors.add(invalid(where, file, "can only be set when type=KubeConfigFile"))
        else:
            # Kubernetes accepts it here, and its API server then crashes: it has no such configuration.
            errors.add(invalid(f"{path}.type", type_, "is for other servers; give KubeConfigFile"))
    elif type_ != KUBECONFIG:
        errors.add(_not_supported_connection(errors, path, type_, file))
    elif not file:
        errors.add(required(where))
    elif not Path(file).is_absolute():
        errors.add(invalid(where, file, "must be an absolute path"))
    elif wrong := _file_problem(file):
        errors.add(invalid(where, file, wrong))
    return file or ""


def _not_supported_connection(errors: FieldErrors, path: str, type_: str, file: str | None) -> FieldError:
    """Kubernetes shows the whole connection here, by the names of its fields in Go."""
    if JSON_IN_TEXTS in errors.features:
        shown = dumps({"Type": type_, "KubeConfigFile": file}).decode()
    else:
        pointer = "nil" if file is None else "0xc000000000"
        fields = f"Type:{format_value(type_)}, KubeConfigFile:(*string)({pointer})"
        shown = f"apiserver.WebhookConnectionInfo{{{fields}}}"
    text = f"Unsupported value: {shown}: supported values: {quoted_list((IN_CLUSTER, KUBECONFIG))}"
    return FieldError("FieldValueNotSupported", f"{path}.type", text)


def _file_problem(path: str) -> str:
    try:
        found = Path(path).stat()
    except OSError as error:
        return f"error loading file: stat {path}: {(error.strerror or str(error)).lower()}"
    return "" if stat.S_ISREG(found.st_mode) else "must be a regular file"
