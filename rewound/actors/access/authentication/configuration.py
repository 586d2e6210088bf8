"""What `--authentication-config` configures: the issuers whose tokens are accepted, and where anonymous requests are.

    apiVersion: apiserver.config.cluster.io/v1
    kind: AuthenticationConfiguration
    jwt:
      - issuer: {url: https://accounts.example.com, audiences: [rewound]}
        claimMappings: {username: {expression: "claims.sub"}}
    anonymous: {enabled: true, conditions: [{path: /livez}]}

`structs_of_file` declares the file for `server/configuration_file.py`, which decodes it; `check_configuration`
validates the decoded file with the texts of Kubernetes, and returns an `AuthenticationConfiguration`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from rewound.actors.access.authentication.claim_expressions import (
    CLAIMS,
    USER,
    Compiler,
    Expression,
    Expressions,
    InvalidExpression,
    ProgramError,
    Rule,
)
from rewound.actors.access.authentication.issuers import (
    Anonymous,
    AuthenticationConfiguration,
    InvalidConfiguration,
    IssuerConfiguration,
)
from rewound.actors.access.authentication.oidc_claims import ClaimRules
from rewound.actors.access.authorize import join_errors
from rewound.actors.cel.urls import InvalidURL, parse_url
from rewound.actors.certificates.trust import InvalidBundle, verifying
from rewound.actors.golang.format import Formatted
from rewound.actors.kinds.schema.fields import BOOL, STRING, Field, ListOf, Struct
from rewound.actors.kinds.validation import (
    FieldErrors,
    TooManyErrors,
    domain_prefixed_path,
    duplicate,
    forbidden,
    invalid,
    required,
    reworded,
    too_many,
    undecided,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import (
    ANONYMOUS_IN_FILE,
    ANONYMOUS_PATHS,
    AUTHENTICATION_V1,
    EGRESS_OF_ISSUERS,
    IDS_OF_ISSUERS,
    SEVERAL_ISSUERS,
)

KIND: Final = "AuthenticationConfiguration"
SCHEME: Final = "pkg/kubeapiserver/options/authentication.go:879"
MAX_ISSUERS: Final = 64
MATCH_ANY: Final = "MatchAny"
_EGRESS: Final = ("controlplane", "cluster")
_EMAIL_NOT_VERIFIED: Final = (
    "claims.email_verified must be used in claimMappings.username.expression or "
    "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in "
    "claimMappings.username.expression"
)


def structs_of_file(names: Names, features: frozenset[str]) -> dict[str, Struct]:
    """Return the types of the file by apiVersion, as the version of the server has them."""
    versions = {"v1": AUTHENTICATION_V1, "v1beta1": SEVERAL_ISSUERS, "v1alpha1": ""}
    group = names.group("apiserver.config")
    return {
        f"{group}/{version}": _struct(version, features)
        for version, since in versions.items()
        if not since or since in features
    }


def _struct(version: str, features: frozenset[str]) -> Struct:
    def texts(*fields: str) -> tuple[Field, ...]:
        return tuple(Field(name, STRING, 0) for name in fields)

    def listed(name: str, item: Struct) -> Field:
        return Field(name, ListOf(item, go_name=f"[]{version}.{item.name}"), 0)

    issuer = [*texts("url", "certificateAuthority"), Field("audiences", ListOf(STRING), 0)]
    if SEVERAL_ISSUERS in features:
        issuer += texts("discoveryURL", "audienceMatchPolicy")
    if AUTHENTICATION_V1 in features:
        issuer += texts("egressSelectorType")
    prefixed = Struct(
        "apiserver.PrefixedClaimOrExpression",
        *texts("claim", "expression"),
        Field("prefix", STRING, 0, pointer=True),
    )
    mappings = Struct(
        "apiserver.ClaimMappings",
        Field("username", prefixed, 0),
        Field("groups", prefixed, 0),
        Field("uid", Struct("apiserver.ClaimOrExpression", *texts("claim", "expression")), 0),
        listed("extra", Struct("apiserver.ExtraMapping", *texts("key", "valueExpression"))),
    )
    claim_rule = Struct(
        "apiserver.ClaimValidationRule", *texts("claim", "requiredValue", "expression", "message")
    )
    authenticator = Struct(
        "apiserver.JWTAuthenticator",
        Field("issuer", Struct("apiserver.Issuer", *issuer), 0),
        listed("claimValidationRules", claim_rule),
        Field("claimMappings", mappings, 0),
        listed(
            "userValidationRules", Struct("apiserver.UserValidationRule", *texts("expression", "message"))
        ),
    )
    fields = [listed("jwt", authenticator)]
    if ANONYMOUS_IN_FILE in features:
        condition = Struct("apiserver.AnonymousAuthCondition", *texts("path"))
        anonymous = Struct(
            "apiserver.AnonymousAuthConfig", Field("enabled", BOOL, 0), listed("conditions", condition)
        )
        fields.append(Field("anonymous", anonymous, 0, pointer=True))
    return Struct(f"apiserver.{KIND}", *fields)


def check_configuration(
    document: Object, names: Names, features: frozenset[str], own_issuers: Sequence[str], *, lone_group: bool
) -> AuthenticationConfiguration:
    """Return the configuration in a decoded file. Raises InvalidConfiguration.

    `own_issuers` are those of service accounts, which no provider may be; `lone_group`: a groups claim may be a string.
    """
    check = _Check(names, features, frozenset(own_issuers), lone_group)
    try:
        found = check.configuration(document)
    except TooManyErrors:
        pass
    if check.errors.found:
        texts = [f"{one.field}: {one.message}" for one in check.errors.found]
        raise InvalidConfiguration(f"invalid authentication configuration: {join_errors(texts)}")
    return found


class _Check:
    def __init__(
        self, names: Names, features: frozenset[str], own_issuers: frozenset[str], lone_group: bool
    ) -> None:
        self._features, self._own_issuers, self._lone_group = features, own_issuers, lone_group
        self._id_key = names.key("credential-id", "authentication") if IDS_OF_ISSUERS in features else ""
        self._domains = tuple(dict.fromkeys((names.group_domain, names.key_domain)))
        self._compiler = Compiler(names, features)
        self.errors = FieldErrors(features)

    def configuration(self, document: Object) -> AuthenticationConfiguration:
        errors, entries, most = self.errors, document.get("jwt") or [], MAX_ISSUERS
        if SEVERAL_ISSUERS not in self._features:
            most = 1
            if not entries:
                errors.add(required("jwt", "at least one jwt is required"))
        if len(entries) > most:
            errors.add(too_many("jwt", len(entries), most))
            return AuthenticationConfiguration()
        urls: set[str] = set()
        discovery_urls: set[str] = set()
        issuers = []
        for index, entry in enumerate(entries):
            path = f"jwt[{index}]"
            issuers.append(self._issuer(entry or {}, path))
            issuer = _part(entry or {}, "issuer")
            url, discovery_url = _text(issuer, "url"), _text(issuer, "discoveryURL")
            if url in urls:
                errors.add(duplicate(f"{path}.issuer.url", url))
            if discovery_url and discovery_url in discovery_urls:
                errors.add(duplicate(f"{path}.issuer.discoveryURL", discovery_url))
            urls.add(url)
            discovery_urls.add(discovery_url)
        return AuthenticationConfiguration(tuple(issuers), self._anonymous(document.get("anonymous")))

    def _anonymous(self, given: Object | None) -> Anonymous | None:
        if given is None:
            return None
        paths = [_text(one or {}, "path") for one in given.get("conditions") or ()]
        if ANONYMOUS_PATHS not in self._features:
            spelt = "AnonymousAuthConfigurableEnpoints"  # in Kubernetes
            self.errors.add(
                forbidden("anonymous", f"anonymous is not supported when {spelt} feature gate is disabled")
            )
        if paths and not given.get("enabled"):
            shown = [{"Path": path} for path in paths]
            listed = ", ".join(f'apiserver.AnonymousAuthCondition{{Path:"{path}"}}' for path in paths)
            value = Formatted(f"[]apiserver.AnonymousAuthCondition{{{listed}}}", shown)
            why = "enabled should be set to true when conditions are defined"
            self.errors.add(invalid("anonymous.conditions", value, why))
        return Anonymous(bool(given.get("enabled")), frozenset(paths))

    def _issuer(self, given: Object, path: str) -> IssuerConfiguration:
        issuer, mappings = _part(given, "issuer"), _part(given, "claimMappings")
        self._check_issuer(issuer, f"{path}.issuer")
        required_claims, claim_rules = self._claim_rules(given, f"{path}.claimValidationRules")
        expressions = self._mappings(mappings, claim_rules, f"{path}.claimMappings")
        user_rules = self._user_rules(given, f"{path}.userValidationRules")
        expressions = replace(expressions, claim_rules=claim_rules, user_rules=user_rules)
        username, groups = _part(mappings, "username"), _part(mappings, "groups")
        rules = ClaimRules(
            _text(issuer, "url"),
            tuple(issuer.get("audiences") or ()),
            _text(username, "claim"),
            _text(username, "prefix"),
            _text(groups, "claim"),
            _text(groups, "prefix"),
            required_claims,
            self._lone_group,
            _text(_part(mappings, "uid"), "claim"),
            self._id_key,
            expressions if expressions != Expressions(features=self._features) else None,
        )
        authorities = _text(issuer, "certificateAuthority").encode() or None
        return IssuerConfiguration(rules, _text(issuer, "discoveryURL"), authorities)

    def _check_issuer(self, issuer: Object, path: str) -> None:
        errors, url, discovery_url = self.errors, _text(issuer, "url"), _text(issuer, "discoveryURL")
        if not url:
            errors.add(required(f"{path}.url", _required_text("URL is required")))
        else:
            if url in self._own_issuers:
                own = " ".join(sorted(self._own_issuers))
                text = f"URL must not overlap with disallowed issuers: [{own}]"
                errors.add(invalid(f"{path}.url", url, text))
            self._check_url(f"{path}.url", url)
        if discovery_url:
            if url and url.rstrip("/") == discovery_url.rstrip("/"):
                text = "discoveryURL must be different from URL"
                errors.add(invalid(f"{path}.discoveryURL", discovery_url, text))
            self._check_url(f"{path}.discoveryURL", discovery_url)
        self._check_audiences(issuer, path)
        if authorities := _text(issuer, "certificateAuthority"):
            try:
                verifying(authorities.encode())
            except (InvalidBundle, ValueError, OSError):
                text = "data does not contain any valid RSA or ECDSA certificates"
                errors.add(invalid(f"{path}.certificateAuthority", "<omitted>", text))
        if egress := _text(issuer, "egressSelectorType"):
            self._check_egress(f"{path}.egressSelectorType", egress)

    def _check_url(self, path: str, text: str) -> None:
        try:
            url = parse_url(text)
        except InvalidURL as error:
            self.errors.add(invalid(path, text, str(error)))
            return
        for wrong, why in (
            (url.scheme != "https", "URL scheme must be https"),
            (url.user is not None, "URL must not contain a username or password"),
            (url.query, "URL must not contain a query"),
            (url.fragment, "URL must not contain a fragment"),
        ):
            if wrong:
                self.errors.add(invalid(path, text, why))

    def _check_audiences(self, issuer: Object, path: str) -> None:
        errors, audiences = self.errors, [one or "" for one in issuer.get("audiences") or ()]
        where, policy = f"{path}.audiences", _text(issuer, "audienceMatchPolicy")
        if not audiences:
            errors.add(required(where, f"at least one {where} is required"))
            return
        if len(audiences) > 1 and SEVERAL_ISSUERS not in self._features:
            errors.add(too_many(where, len(audiences), 1))
            return
        for index, audience in enumerate(audiences):
            if not audience:
                errors.add(required(f"{where}[{index}]", _required_text("audience can't be empty")))
            if audience in audiences[:index]:
                errors.add(duplicate(f"{where}[{index}]", audience))
        if len(audiences) > 1 and policy != MATCH_ANY:
            text = "audienceMatchPolicy must be MatchAny for multiple audiences"
            errors.add(invalid(f"{path}.audienceMatchPolicy", policy, text))
        if len(audiences) == 1 and policy not in ("", MATCH_ANY):
            text = "audienceMatchPolicy must be empty or MatchAny for single audience"
            errors.add(invalid(f"{path}.audienceMatchPolicy", policy, text))

    def _check_egress(self, path: str, egress: str) -> None:
        """Whatever it is, it is refused: this server has no configuration of egress."""
        errors, gate = self.errors, "StructuredAuthenticationConfigurationEgressSelector"
        if EGRESS_OF_ISSUERS not in self._features:
            text = f"egress selector is not supported when {gate} feature gate is disabled"
            errors.add(invalid(path, egress, text))
        if egress not in _EGRESS:
            errors.add(invalid(path, egress, "egress selector must be either controlplane or cluster"))
        else:
            text = f'oidc: egress lookup required with egress selector type "{egress}"'
            errors.add(invalid(path, egress, f"{text}; this server calls issuers directly: leave it out"))

    def _claim_rules(self, given: Object, path: str) -> tuple[tuple[tuple[str, str], ...], tuple[Rule, ...]]:
        """The claims with required values, and the conditions."""
        errors, claims, rules = self.errors, dict[str, str](), dict[str, Rule | None]()
        for index, rule in enumerate(given.get("claimValidationRules") or ()):
            here, rule = f"{path}[{index}]", rule or {}
            claim, expression = _text(rule, "claim"), _text(rule, "expression")
            message, value = _text(rule, "message"), _text(rule, "requiredValue")
            if claim and expression:
                errors.add(invalid(here, claim, "claim and expression can't both be set"))
            elif claim:
                if message:
                    text = _with("may not be specified", "message can't be set", "when claim is set")
                    errors.add(invalid(f"{here}.message", message, text))
                if claim in claims:
                    errors.add(duplicate(f"{here}.claim", claim))
                claims[claim] = value
            elif expression:
                if value:
                    text = _with(
                        "may not be specified", "requiredValue can't be set", "when expression is set"
                    )
                    errors.add(invalid(f"{here}.requiredValue", value, text))
                if expression in rules:
                    errors.add(duplicate(f"{here}.expression", expression))
                    continue
                compiled = self._compile(f"{here}.expression", CLAIMS, expression, condition=True)
                rules[expression] = None if compiled is None else (compiled, message)
            else:
                errors.add(required(here, "claim or expression is required"))
        return tuple(claims.items()), tuple(filter(None, rules.values()))

    def _mappings(self, mappings: Object, claim_rules: tuple[Rule, ...], path: str) -> Expressions:
        before = len(self.errors.found)
        username = self._claim_or_expression(
            _part(mappings, "username"), f"{path}.username", is_required=True
        )
        wrong_username = len(self.errors.found) > before
        groups = self._claim_or_expression(_part(mappings, "groups"), f"{path}.groups")
        uid = self._uid(_part(mappings, "uid"), f"{path}.uid")
        extra = self._extra(mappings, f"{path}.extra")
        if username is not None and not wrong_username and "email" in username.uses:
            of_rules = [rule for rule, _ in claim_rules]
            if all("email_verified" not in one.uses for one in (username, *of_rules, *extra.values())):
                self.errors.add(invalid(f"{path}.username.expression", username.text, _EMAIL_NOT_VERIFIED))
        return Expressions(
            features=self._features, username=username, groups=groups, uid=uid, extra=tuple(extra.items())
        )

    def _claim_or_expression(
        self, given: Object, path: str, *, is_required: bool = False
    ) -> Expression | None:
        errors, claim, expression = self.errors, _text(given, "claim"), _text(given, "expression")
        prefix = given.get("prefix")
        if claim and expression:
            errors.add(invalid(path, "", "claim and expression can't both be set"))
        elif expression:
            if prefix is not None:
                text = _with("may not be specified", "prefix can't be set", "when expression is set")
                errors.add(invalid(f"{path}.prefix", prefix, text))
            return self._compile(f"{path}.expression", CLAIMS, expression)
        elif claim and prefix is None:
            text = (
                "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
            )
            errors.add(required(f"{path}.prefix", text))
        elif not claim and is_required:
            errors.add(required(path, "claim or expression is required"))
        return None

    def _uid(self, given: Object, path: str) -> Expression | None:
        claim, expression = _text(given, "claim"), _text(given, "expression")
        if claim and expression:
            self.errors.add(invalid(path, "", "claim and expression can't both be set"))
            return None
        return self._compile(f"{path}.expression", CLAIMS, expression) if expression else None

    def _extra(self, mappings: Object, path: str) -> dict[str, Expression]:
        errors, found, seen = self.errors, dict[str, Expression](), set[str]()
        for index, mapping in enumerate(mappings.get("extra") or ()):
            here = f"{path}[{index}]"
            key, expression = _text(mapping or {}, "key"), _text(mapping or {}, "valueExpression")
            domain_prefixed_path(errors, f"{here}.key", key)
            if key != key.lower():
                text = reworded("key must be lowercase", AUTHENTICATION_V1, "must be lowercase")
                errors.add(invalid(f"{here}.key", key, text))
            domain = f".{key.partition('/')[0]}" if "/" in key else ""
            if IDS_OF_ISSUERS in self._features and any(domain.endswith(f".{own}") for own in self._domains):
                own = f"{', '.join(self._domains)} and their subdomains are reserved for Kubernetes use"
                errors.add(invalid(f"{here}.key", key, own))
            if key in seen:
                errors.add(duplicate(f"{here}.key", key))
                continue
            seen.add(key)
            if not expression:
                errors.add(required(f"{here}.valueExpression", _required_text("valueExpression is required")))
                continue
            compiled = self._compile(f"{here}.valueExpression", CLAIMS, expression)
            if compiled is not None:
                found[key] = compiled
        return found

    def _user_rules(self, given: Object, path: str) -> tuple[Rule, ...]:
        errors, rules = self.errors, dict[str, Rule | None]()
        for index, rule in enumerate(given.get("userValidationRules") or ()):
            here, expression = f"{path}[{index}].expression", _text(rule or {}, "expression")
            if not expression:
                errors.add(required(here, _required_text("expression is required")))
            elif expression in rules:
                errors.add(duplicate(here, expression))
            else:
                compiled = self._compile(here, USER, expression, condition=True)
                rules[expression] = None if compiled is None else (compiled, _text(rule, "message"))
        return tuple(filter(None, rules.values()))

    def _compile(self, path: str, variable: str, text: str, *, condition: bool = False) -> Expression | None:
        try:
            return self._compiler.compile(variable, text, condition=condition)
        except ProgramError as error:
            self.errors.add(undecided(path, str(error)))
        except InvalidExpression as error:
            self.errors.add(invalid(path, text, str(error)))
        return None


def _part(given: Object, name: str) -> Object:
    found: Any = given.get(name)
    return found or {}


def _text(given: Object, name: str) -> str:
    return str(given.get(name) or "")


def _required_text(before: str) -> str:
    """A detail that versions until 1.33 give."""
    return reworded(before, AUTHENTICATION_V1, "")


def _with(later: str, before: str, when: str) -> str:
    return reworded(f"{before} {when}", AUTHENTICATION_V1, f"{later} {when}")
