"""Every rule in which the documents of this API and Kubernetes v1.25 differ, and the choice that a server makes.

A dialect (`actors.names`) decides names; a profile decides behaviour. `Rules` has one field per rule, with words as
values; the table in docs/profiles.md is generated from its fields. A server has one `Rules`: those of `--profile`, or
else of the default of its dialect, with what `--rule` sets by name. Code that follows a rule takes the `Rules` and
compares one field; nothing else looks at the dialect to decide behaviour.

    rules = choose_rules("kubernetes", "", "service-name=required")
    rules.service_name                    -> "required"
    rules.health                          -> "kubernetes"

A data folder does not keep its profile: rules apply to requests, not to what is stored. A stored object that breaks a
current rule stays readable, and its next update has to follow the rule, as with every rule that becomes stricter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal

DOCUMENTS, V1_25 = "documents", "v1.25"
PROFILES: Final = (DOCUMENTS, V1_25)


@dataclass(frozen=True, slots=True)
class Choice:
    """One side of a rule: the word that selects it, and what the server does then."""

    word: str
    does: str


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    documents: Choice
    v1_25: Choice
    source: str  # where each of the two is documented or can be observed
    opt_in: bool = False  # v1.25's choice can do harm: its profile leaves it out, only `--rule` selects it

    @property
    def words(self) -> tuple[str, str]:
        return self.documents.word, self.v1_25.word


def _rule(documents: tuple[str, str], v1_25: tuple[str, str], source: str, *, opt_in: bool = False) -> Any:
    """Declare a field of `Rules` whose default is the choice of the documents."""
    sides = {"documents": Choice(*documents), "v1_25": Choice(*v1_25), "source": source, "opt_in": opt_in}
    return field(default=documents[0], metadata=sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How one server behaves. The defaults are what the documents say."""

    service_name: Literal["required", "optional"] = _rule(
        ("required", "a StatefulSet without `spec.serviceName` is refused with 422"),
        ("optional", "it is accepted, with an empty name"),
        "document 3, StatefulSet; v1.25 validates no such field",
    )
    default_cpu: Literal["100m", "none"] = _rule(
        (
            "100m",
            "LimitRanger lets a container without a CPU request or limit request 0.1 CPU in the namespace `default`, "
            "while that has no LimitRange",
        ),
        ("none", "without a LimitRange there are no default requests"),
        "document 3, LimitRanger and its limits; v1.25 admission plugin",
    )
    certificate_subjects: Literal["any", "restricted"] = _rule(
        ("any", "the plugin CertificateSubjectRestriction is off unless it is enabled"),
        ("restricted", "it is on: no request for a client certificate of `system:masters`"),
        "document 2, built-in signers; plugins on by default in v1.25",
    )
    denial_right: Literal["update", "approve"] = _rule(
        ("update", "denying a certificate request needs the right to update its approval, and no more"),
        ("approve", "every update of the approval needs `approve` on the signer too"),
        "document 2, states of a request; v1.25 recorded",
    )
    unfit_requests: Literal["log", "failed"] = _rule(
        ("log", "an approved certificate request that its signer does not sign is reported in the log alone"),
        ("failed", "it also gets the condition Failed with the reason SignerValidationFailure"),
        "document 2, errors; v1.25 csrsigning",
    )
    unissued_requests: Literal["deleted", "retained"] = _rule(
        ("deleted", "an approved certificate request is deleted after an hour, issued or not"),
        ("retained", "one without a certificate stays"),
        "document 2, garbage collection; v1.25 csrcleaner",
    )
    node_usages: Literal["three", "two-or-three"] = _rule(
        ("three", "certificates of nodes need exactly their three usages"),
        ("two-or-three", "`key encipherment` may be missing, as keys that are not RSA have no use for it"),
        "document 2, built-in signers; v1.25 recorded",
    )
    cluster_info_key: Literal["token", "secret"] = _rule(
        ("token", "the whole bootstrap token is the key of a signature of `cluster-info`"),
        ("secret", "the part after the dot is the key, as kubeadm verifies it"),
        "document 2, bootstrap token Secret; v1.25 bootstrapsigner",
    )
    pod_security_policy: Literal["served", "removed"] = _rule(
        ("served", "PodSecurityPolicy (`policy/v1beta1`) is served"),
        ("removed", "it is not, unless `--runtime-config policy/v1beta1` says so"),
        "document 3, PodSecurityPolicy; removed in v1.25, and charts look for it in discovery",
    )
    root_certificate: Literal["absent", "published"] = _rule(
        ("absent", "the controller `root-ca-cert-publisher` runs only if `--controllers` names it"),
        ("published", "it runs: every namespace has a ConfigMap with the CA certificate"),
        "document 2 has the CA in token Secrets alone; controllers of v1.25",
    )
    item_watch: Literal["stream", "ignored"] = _rule(
        ("stream", "a GET of one object with `watch` is a watch of that object"),
        ("ignored", "it is a get; `fieldSelector=metadata.name=...` of the collection watches one object"),
        "document 1, verbs; v1.25 takes the verb of a path with a name from the method",
    )
    bookmark: Literal["version", "zero-values"] = _rule(
        ("version", "a BOOKMARK event has the type and `metadata.resourceVersion`, nothing else"),
        (
            "zero-values",
            "it also has what Go writes of an empty object, such as `creationTimestamp: null`; objects of custom "
            "kinds and Tables have no more than the version",
        ),
        "document 1, events; v1.25 recorded",
    )
    zero_version_limit: Literal["paged", "whole"] = _rule(
        ("paged", "a list with `resourceVersion=0` and a limit has pages"),
        ("whole", "it has all objects, except Events"),
        "document 1, list semantics; v1.25 serves such lists from its watch cache",
    )
    watch_history: Literal["5m", "10m"] = _rule(
        (
            "5m",
            "without `--watch-history`, versions and continue tokens are valid for 5 minutes, then they get 410",
        ),
        ("10m", "they are valid for 10 minutes"),
        "document 1, limits; v1.25 compacts every 5 minutes up to what was new 5 minutes before",
    )
    last_page: Literal["matching", "unread"] = _rule(
        ("matching", "a page of a selection has a continue token if a further object matches"),
        ("unread", "a full page has one if there is any further object, so that the last page may be empty"),
        "document 1, list paging; v1.25 recorded",
    )
    reset_owner: Literal["writer", "nobody"] = _rule(
        (
            "writer",
            "a write that resets `managedFields` with one empty entry and changes fields owns these fields afterwards",
        ),
        ("nobody", "nobody owns fields of the object until the next apply"),
        "document 1, server-side apply; v1.25 recorded",
    )
    empty_owner_list: Literal["ignored", "reset"] = _rule(
        ("ignored", "a write with `managedFields: []` leaves them as they are"),
        ("reset", "it resets them, as one empty entry does, except those of custom kinds"),
        "document 1, server-side apply; v1.25 recorded",
    )
    scale_owner: Literal["nobody", "writer"] = _rule(
        ("nobody", "a change through `/scale` records no owner of `spec.replicas`"),
        (
            "writer",
            "the writer owns it, in an entry with the subresource `scale`, and an apply through `/scale` conflicts "
            "with other owners; custom kinds record nobody",
        ),
        "document 1, server-side apply; v1.25 recorded",
    )
    held_delete: Literal["by-kind", "object"] = _rule(
        (
            "by-kind",
            "a DELETE that only marks the object, because of finalizers, responds as every DELETE of the kind: with "
            "a Status or the object",
        ),
        ("object", "it responds with the object"),
        "document 1, verbs; v1.25 recorded",
    )
    collection_delete: Literal["status", "list"] = _rule(
        ("status", "a DELETE of a collection responds with a Status"),
        ("list", "it responds with the list of the objects as they were before"),
        "document 1, verbs; v1.25 recorded",
    )
    empty_metadata_list: Literal["empty", "null"] = _rule(
        ("empty", "a `PartialObjectMetadataList` without items has `items: []`"),
        ("null", "it has `items: null`"),
        "document 1, metadata of objects; v1.25 recorded",
    )
    unknown_and_invalid: Literal["400", "422"] = _rule(
        ("400", "a built-in object with an unknown field that is also invalid is refused with 400"),
        ("422", "it is refused as without the unknown field, with a warning about that; so is a patch"),
        "document 1, field validation; v1.25 recorded",
    )
    strict_patch: Literal["400", "422"] = _rule(
        ("400", "a patch with unknown or duplicate fields and `fieldValidation=Strict` is refused with 400"),
        ("422", "it is refused with 422 at the field `patch`, unless it is an apply"),
        "document 1, field validation; v1.25 recorded",
    )
    sent_generation: Literal["ignored", "kept"] = _rule(
        ("ignored", "a create ignores `metadata.generation`, as all metadata that the server sets"),
        ("kept", "it is kept in objects of kinds whose generations nobody counts, such as config maps"),
        "document 1, metadata; v1.25 compared",
    )
    ill_typed_apply: Literal["400", "500"] = _rule(
        ("400", "an apply of an object that does not fit its schema is refused with 400"),
        ("500", "it is refused with 500, with the text of Kubernetes about the schema"),
        "document 1, errors; v1.25 compared",
    )
    error_texts: Literal["explained", "kubernetes"] = _rule(
        (
            "explained",
            "errors about a resourceVersion that is no number, patches that do not apply, and objects of another "
            "kind or uid say what is wrong with what was sent, with 400, 409 or 422",
        ),
        (
            "kubernetes",
            "they have the texts of kube-apiserver, and a resourceVersion that is no number or a strategic merge patch "
            "that does not fit gets 500",
        ),
        "document 1, errors; v1.28 and later compared",
    )
    apply_unknown_fields: Literal["by-mode", "refused"] = _rule(
        (
            "by-mode",
            "an apply with unknown fields follows `fieldValidation` as other writes do: they are dropped, by default "
            "with a warning, and refused with 400 by Strict",
        ),
        ("refused", "it is refused, whatever `fieldValidation` is"),
        "document 1, field validation; v1.25 compared",
    )
    nested_schemas: Literal["checked", "ignored"] = _rule(
        (
            "checked",
            "unknown fields in `items`, `additionalProperties` and `dependencies` of the schema of a definition, and "
            "values there that are no schemas, are reported as in other fields",
        ),
        (
            "ignored",
            "unknown fields there are ignored, also by Strict, and `items` that are no schema count as absent",
        ),
        "document 1, field validation; v1.25 compared",
    )
    bare_dry_run: Literal["write", "refused"] = _rule(
        ("write", "`?dryRun` without a value is an ordinary write"),
        ("refused", "it is refused with 422"),
        "document 1, query parameters; v1.25 recorded",
    )
    delete_dry_run: Literal["query-or-body", "body"] = _rule(
        ("query-or-body", "a DELETE with `?dryRun=All` deletes nothing, whatever its body says"),
        (
            "body",
            "it deletes if it has a body without `dryRun`: a body hides the query; "
            "only with `--rule`, also in the profile `v1.25`",
        ),
        "document 1, dry run; v1.25 recorded",
        opt_in=True,
    )
    dry_run_node_ports: Literal["checked", "unchecked"] = _rule(
        (
            "checked",
            "a dry run of a Service with a node port outside the range, or with the ClusterIP of another one, is "
            "refused with 422, as the write is",
        ),
        (
            "unchecked",
            "the dry run is accepted, and the write is refused; "
            "what it allocates is the address of the network, and ports after 32768",
        ),
        "document 1, dry run; v1.25 recorded",
    )
    custom_columns: Literal["created-at", "age"] = _rule(
        ("created-at", "a Table of a custom kind without printer columns has Name and Created At"),
        ("age", "it has Name and Age"),
        "document 1, Table representation; v1.25 recorded",
    )
    account_impersonation: Literal["cluster", "namespace"] = _rule(
        ("cluster", "impersonating a service account needs a cluster-wide right"),
        ("namespace", "a right in the namespace of the account is enough"),
        "document 2, impersonation; v1.25 recorded",
    )
    url_wildcards: Literal["final-step", "anywhere"] = _rule(
        ("final-step", "`*` in `nonResourceURLs` of a new rule is the full final step of a path, else 422"),
        ("anywhere", "it is accepted anywhere; at the end it stands for every rest"),
        "document 3, ClusterRole; v1.25 validates no such thing",
    )
    oidc_groups: Literal["list", "list-or-string"] = _rule(
        ("list", "the groups claim of an ID token must be a list of strings"),
        ("list-or-string", "one string is one group"),
        "document 2, OpenID Connect flags; v1.25 authenticator",
    )
    health: Literal["rewound", "kubernetes"] = _rule(
        (
            "rewound",
            "health checks and component statuses have names of this server; a verbose report ends with "
            "`healthz check passed` at every path",
        ),
        ("kubernetes", "they have the names and the order of kube-apiserver; the last line names the path"),
        "document 1, health endpoints; v1.25 with `?verbose`",
    )


def _table() -> Iterator[Rule]:
    for one in fields(Rules):
        yield Rule(one.name.replace("_", "-"), **one.metadata)


TABLE: Final = tuple(_table())
_BY_NAME: Final = {one.name: one for one in TABLE}
DOCUMENTED: Final = Rules()
_OF_PROFILE: Final = {
    DOCUMENTS: DOCUMENTED,
    V1_25: Rules(
        **{one.name.replace("-", "_"): one.v1_25.word for one in TABLE if not one.opt_in}  # type: ignore[arg-type]
    ),
}
# The only place where a dialect decides about rules.
_OF_DIALECT: Final = {"cluster": DOCUMENTS, "kubernetes": V1_25}


def profile_of(dialect: str) -> str:
    """Return the profile that a server of this dialect has without --profile."""
    return _OF_DIALECT[dialect]


def default_rules(dialect: str) -> Rules:
    return _OF_PROFILE[_OF_DIALECT[dialect]]


def choose_rules(dialect: str, profile: str = "", assignments: str = "") -> Rules:
    """Return the rules of a profile (empty: that of the dialect), changed by `assignments`, such as
    `health=rewound,...`.

    Raises ValueError for a name or a value that does not exist.
    """
    return replace(_OF_PROFILE[profile or _OF_DIALECT[dialect]], **parse_assignments(assignments))


def parse_assignments(text: str) -> dict[str, Any]:
    """Return the assigned fields of `Rules` by name; a later value of a rule replaces an earlier one.

    Raises ValueError for a name or a value that does not exist.
    """
    found: dict[str, Any] = {}
    for one in filter(None, (part.strip() for part in text.split(","))):
        name, equals, word = (part.strip() for part in one.partition("="))
        rule = _BY_NAME.get(name)
        if rule is None:
            raise ValueError(f"there is no rule {name!r}; there are {', '.join(_BY_NAME)}")
        if not equals or word not in rule.words:
            given = f"has no value {word!r}" if equals else "needs a value"
            raise ValueError(
                f"the rule {name} {given}; give {' or '.join(f'{name}={w}' for w in rule.words)}"
            )
        found[name.replace("-", "_")] = word
    return found
