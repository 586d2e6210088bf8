"""The certificates group: CertificateSigningRequest, which an approver approves or denies and a signer signs;
ClusterTrustBundle, certificates of authorities for pods; PodCertificateRequest, by which a kubelet gets a certificate
for a pod from a signer.

The spec is immutable. Approvers add Approved and Denied conditions via the `approval` subresource; signers set the
certificate and all other conditions via `status`. None of these can be removed. Admission
(`actors/admission/completions.py`) sets the requesting user and the times of conditions before any of this runs. An
update of a request that violates a newer rule may keep violating it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from rewound.actors.golang.format import format_bytes
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at, human_duration
from rewound.actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    DiscoveryNames,
    Selection,
    Storage,
    Strategy,
    Subresource,
    Table,
    clear_status,
    keep_spec,
    keep_spec_and_metadata,
    keep_status,
)
from rewound.actors.kinds.declaration.meta import CONDITION as META_CONDITION
from rewound.actors.kinds.declaration.meta import (
    MAX_ANNOTATION_BYTES,
    METADATA,
    condition_rules,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.schema.fields import (
    BYTES,
    INT32,
    STRING,
    STRING_MAP,
    STRINGS,
    TIME,
    Before,
    Field,
    ListOf,
    MapOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    OMITTED,
    FieldError,
    FieldErrors,
    Worded,
    dns_label,
    dns_subdomain,
    domain_prefixed_key,
    duplicate,
    forbidden,
    invalid,
    name_is_path_segment,
    name_is_subdomain,
    not_supported,
    required,
    size,
    too_long,
    unchanged,
)
from rewound.actors.kinds.values.pem import (
    InvalidKey,
    InvalidPEM,
    IssuedCertificate,
    blocks_of,
    check_certificates,
    check_public_key,
    check_request,
    check_stub_request,
    has_key_of,
    is_certificate,
    issued_certificate,
    why_no_authority,
)
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.time_limit import need_thread
from rewound.actors.versions.features import (
    ALPHA_BUNDLES_END,
    ALPHA_BUNDLES_STAY,
    APPROVALS_FIELD,
    BARE_SIGNERS,
    CHECKED_CERTIFICATE_NAMES,
    STUB_REQUESTS,
    USAGES_TEXT,
)

MIN_EXPIRATION: Final = 600
LONGEST_DOMAIN: Final = 253
LONGEST_SIGNER: Final = LONGEST_DOMAIN + 1 + 63 + 1 + 253
APPROVALS: Final = ("Approved", "Denied")
# Conditions whose status can only be True, and that no update may remove.
PERMANENT: Final = (*APPROVALS, "Failed")
STATUSES: Final = ("False", "True", "Unknown")
USAGES: Final = tuple(
    sorted(
        (
            *("signing", "digital signature", "content commitment", "key encipherment", "key agreement"),
            *("data encipherment", "cert sign", "crl sign", "encipher only", "decipher only", "any"),
            *("server auth", "client auth", "code signing", "email protection", "s/mime"),
            *("ipsec end system", "ipsec tunnel", "ipsec user", "timestamping", "ocsp signing"),
            *("microsoft sgc", "netscape sgc"),
        )
    )
)

SPEC = Struct(
    "certificates.v1.CertificateSigningRequestSpec",
    Field(
        "request",
        BYTES,
        1,
        required=True,
        always=True,
        before=(Before("1.35", list_type="atomic"),),
    ),
    Field("signerName", STRING, 7, required=True, always=True),
    Field("expirationSeconds", INT32, 8, pointer=True),
    Field("usages", STRINGS, 5, list_type="atomic"),
    Field("username", STRING, 2),
    Field("uid", STRING, 3),
    Field("groups", STRINGS, 4, list_type="atomic"),
    Field("extra", MapOf(STRINGS), 6),
)
CONDITION = Struct(
    "certificates.v1.CertificateSigningRequestCondition",
    Field("type", STRING, 1, required=True, always=True),
    Field("status", STRING, 6, required=True, always=True),
    Field("reason", STRING, 2),
    Field("message", STRING, 3),
    Field("lastUpdateTime", TIME, 4),
    Field("lastTransitionTime", TIME, 5),
)
STATUS = Struct(
    "certificates.v1.CertificateSigningRequestStatus",
    Field("conditions", ListOf(CONDITION), 1, list_type="map", list_keys=("type",)),
    Field("certificate", BYTES, 2, before=(Before("1.35", list_type="atomic"),)),
)
CERTIFICATE_SIGNING_REQUEST = Struct(
    "certificates.v1.CertificateSigningRequest",
    METADATA,
    Field("spec", SPEC, 2, required=True),
    Field("status", STATUS, 3),
)


def _expiration_cell(stored: Object, _: int) -> str:
    seconds = stored["spec"].get("expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def _condition_cell(stored: Object, _: int) -> str:
    types = {one["type"] for one in stored["status"].get("conditions", ())}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    words += ["Failed"] if "Failed" in types else []
    words += ["Issued"] if stored["status"].get("certificate") else []
    return ",".join(words)


COLUMNS: Final = (
    NAME,
    AGE,
    Column("SignerName", "string", "Signer that should sign the request.", at("spec", "signerName")),
    Column("Requestor", "string", "User that made the request.", at("spec", "username")),
    Column("RequestedDuration", "string", "Validity that the requestor asks for.", _expiration_cell),
    Column("Condition", "string", "Approval, failure and issuance.", _condition_cell),
)


def declare(names: Names, features: frozenset[str]) -> tuple[Definition, ...]:
    rules = RequestRules(names.legacy_signer, features)
    request = Definition(
        group=names.group("certificates"),
        version="v1",
        kind="CertificateSigningRequest",
        plural="certificatesigningrequests",
        names=DiscoveryNames(short_names=("csr",)),
        namespaced=False,
        check_name=free_name,
        fields=CERTIFICATE_SIGNING_REQUEST,
        subresources=(
            Subresource(
                name="approval",
                prepare=prepare_approval,
                validate=partial(rules.validate_update, may_approve=True),
                reset_fields=("spec", "status.certificate"),
            ),
            Subresource(
                name="status",
                prepare=prepare_status,
                validate=partial(rules.validate_update, may_set_certificate=True),
                reset_fields=("spec", "status.conditions"),
            ),
        ),
        selection=Selection(
            fields={"spec.signerName": lambda stored: str(stored["spec"]["signerName"])},
            own_label_conversion=True,
        ),
        table=Table(COLUMNS),
        strategy=Strategy(
            reset_fields=("spec", "status"),  # the spec is immutable, so no manager owns its fields
            prepare_for_create=partial(clear_status, STATUS),
            prepare_for_update=prepare_update,
            validate_create=rules.validate_create,
            validate_update=rules.validate_update,
        ),
    )
    return (request, *define_trust_bundles(names), *define_pod_requests(names))


def free_name(_name: str, _prefix: bool) -> list[str]:
    """The kind has no rule for names; `validate_create` checks last that a URL can hold the name."""
    return []


def prepare_update(new: Object, old: Object) -> None:
    new["spec"], new["status"] = old["spec"], old["status"]


def prepare_approval(new: Object, old: Object) -> None:
    keep_spec(new, old)
    conditions = new["status"].get("conditions")
    status = {**old["status"]}
    status.pop("conditions", None)
    new["status"] = STATUS.arranged({**status, "conditions": conditions} if conditions else status)


def prepare_status(new: Object, old: Object) -> None:
    """Keep Approved and Denied conditions unchanged; validation refuses added and removed ones."""
    keep_spec(new, old)
    kept: dict[str, Iterator[Object]] = {}
    for approval in APPROVALS:
        current = _conditions_of_type(old, approval)
        if current and len(current) == len(_conditions_of_type(new, approval)):
            kept[approval] = iter(current)
    if kept:
        sent = new["status"]["conditions"]
        new["status"]["conditions"] = [next(kept.get(one["type"], iter((one,)))) for one in sent]


def _conditions_of_type(request: Object, kind: str) -> list[Object]:
    return [one for one in request["status"].get("conditions", ()) if one["type"] == kind]


class RequestRules:
    def __init__(self, legacy_signer: str, features: frozenset[str]) -> None:
        self._legacy_signer = legacy_signer
        self._usages_text = "" if USAGES_TEXT in features else "usages must be provided"
        self._names_all_conditions = APPROVALS_FIELD in features

    def validate_create(self, errors: FieldErrors, new: Object) -> None:
        self._validate(errors, new, None)
        if not errors.found:
            name = new["metadata"].get("name", "")
            errors.add_each("metadata.name", name, name_is_path_segment(name, False))

    def validate_update(
        self,
        errors: FieldErrors,
        new: Object,
        old: Object,
        *,
        may_approve: bool = False,
        may_set_certificate: bool = False,
    ) -> None:
        metadata_rules(errors, new["metadata"], namespaced=False, check_name=free_name)
        self._validate(errors, new, old)
        _condition_update_rules(errors, new, old, may_approve=may_approve)
        _certificate_update_rules(errors, new["status"], old["status"], may_set=may_set_certificate)
        metadata_update_rules(errors, new["metadata"], old["metadata"])

    def _validate(self, errors: FieldErrors, new: Object, old: Object | None) -> None:
        spec, before = new["spec"], old["spec"] if old else {}
        _pem_request(errors, spec["request"])
        _usages(errors, spec.get("usages", []), before.get("usages", []), self._usages_text)
        self._signer(errors, spec["signerName"], before.get("signerName", ""))
        _expiration(errors, spec.get("expirationSeconds"))
        conditions, before_status = new["status"].get("conditions", []), old["status"] if old else {}
        _conditions(errors, conditions, before_status, names_all=self._names_all_conditions)
        _certificate(errors, new["status"].get("certificate", ""), old)

    def _signer(self, errors: FieldErrors, name: str, before: str) -> None:
        field = "spec.signerName"
        if name == self._legacy_signer and before != name:
            errors.add(invalid(field, name, "the legacy signerName is not allowed via this API version"))
        else:
            signer_rules(errors, name, field)


def _pem_request(errors: FieldErrors, content: str) -> None:
    try:
        check_request(content)
    except InvalidPEM as why:
        errors.add(invalid("spec.request", format_bytes(content), str(why)))


def _usages(errors: FieldErrors, usages: list[str], before: list[str], missing: str) -> None:
    field = "spec.usages"
    if not usages:
        errors.add(required(field, missing))
    if set(before) <= set(USAGES):
        for index, usage in enumerate(usages):
            if usage not in USAGES:
                errors.add(not_supported(f"{field}[{index}]", usage, USAGES))
    if len(set(before)) == len(before):
        seen: set[str] = set()
        for index, usage in enumerate(usages):
            if usage in seen:
                errors.add(duplicate(f"{field}[{index}]", usage))
            seen.add(usage)


def signer_rules(errors: FieldErrors, name: str, field: str) -> None:
    """A signer name is a domain of at least two labels, a slash, and a path that is a DNS subdomain."""
    if not name:
        errors.add(required(field, "" if BARE_SIGNERS in errors.features else "signerName must be provided"))
        return
    if name.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        errors.add(invalid(field, name, text))
        return
    domain, _, path = name.partition("/")
    if size(domain) > LONGEST_DOMAIN:
        errors.add(too_long(field, LONGEST_DOMAIN))
    _label_rules(errors, domain, field, dns_label)
    if "." not in domain:
        text = "should be a domain with at least two segments separated by dots"
        errors.add(invalid(field, domain, text))
    _label_rules(errors, path, field, dns_subdomain)
    if size(name) > LONGEST_SIGNER:
        errors.add(too_long(field, LONGEST_SIGNER))


def _label_rules(errors: FieldErrors, dotted: str, field: str, check: Callable[[str], list[str]]) -> None:
    for label in dotted.split("."):
        wrong = check(label)
        if wrong:
            for text in wrong:
                errors.add(invalid(field, dotted, f"validating label {quoted_start(label)}: {text}"))
            return


def _expiration(errors: FieldErrors, seconds: int | None) -> None:
    if seconds is None or seconds >= MIN_EXPIRATION:
        return
    text = "may not specify a duration less than 600 seconds (10 minutes)"
    errors.add(invalid("spec.expirationSeconds", seconds, text))


def _conditions(errors: FieldErrors, conditions: list[Object], before: Object, *, names_all: bool) -> None:
    all_known = [one["type"] for one in before.get("conditions", ())]
    known, types = set(all_known), set[str]()
    had_repeated, had_both = len(known) < len(all_known), set(APPROVALS) <= known
    for index, condition in enumerate(conditions):
        kind, field = condition["type"], f"status.conditions[{index}]"
        if not kind and "" not in known:
            errors.add(required(f"{field}.type"))
        _condition_status(errors, kind, condition["status"], f"{field}.status")
        if kind in APPROVALS and not had_both and set(APPROVALS) - {kind} <= types:
            text = "Approved and Denied conditions are mutually exclusive"
            errors.add(invalid("status.conditions" if names_all else f"{field}.type", kind, text))
        if kind in types and not had_repeated:
            errors.add(duplicate(f"{field}.type", kind))
        types.add(kind)


def _condition_status(errors: FieldErrors, kind: str, status: str, field: str) -> None:
    allowed = ("True",) if kind in PERMANENT else STATUSES
    if status not in allowed:
        errors.add(not_supported(field, status, allowed) if status else required(field))


def _certificate(errors: FieldErrors, content: str, old: Object | None) -> None:
    if old is not None and _is_tolerated(content, old["status"].get("certificate", "")):
        return
    try:
        check_certificates(content)
    except InvalidPEM as why:
        errors.add(invalid("status.certificate", "<certificate data>", str(why)))


def _is_tolerated(content: str, before: str) -> bool:
    if content == before:
        return True
    try:
        check_certificates(before)
    except InvalidPEM:
        return True
    return False


def _condition_update_rules(errors: FieldErrors, new: Object, old: Object, *, may_approve: bool) -> None:
    field = "status.conditions"
    for kind in PERMANENT:
        if len(_conditions_of_type(new, kind)) < len(_conditions_of_type(old, kind)):
            errors.add(forbidden(field, f"updates may not remove a condition of type {quoted_start(kind)}"))
    for kind in () if may_approve else APPROVALS:
        after, before = _conditions_of_type(new, kind), _conditions_of_type(old, kind)
        if len(after) > len(before):
            errors.add(forbidden(field, f"updates may not add a condition of type {quoted_start(kind)}"))
        elif len(after) == len(before) and after != before:
            errors.add(forbidden(field, f"updates may not modify a condition of type {quoted_start(kind)}"))


def _certificate_update_rules(errors: FieldErrors, status: Object, before: Object, *, may_set: bool) -> None:
    field, old = "status.certificate", before.get("certificate", "")
    if status.get("certificate", "") == old:
        return
    if not may_set:
        errors.add(forbidden(field, "updates may not set certificate content"))
    elif old:
        errors.add(forbidden(field, "updates may not modify existing certificate content"))


LONGEST_BUNDLE: Final = 1024 * 1024
LARGE_BUNDLE: Final = 8 * 1024  # takes milliseconds to parse


def _bundle_struct(version: str) -> Struct:
    spec = Struct(
        f"certificates.{version}.ClusterTrustBundleSpec",
        Field("signerName", STRING, 1),
        Field("trustBundle", STRING, 2, required=True, always=True),
    )
    return Struct(
        f"certificates.{version}.ClusterTrustBundle", METADATA, Field("spec", spec, 2, required=True)
    )


def define_trust_bundles(names: Names) -> tuple[Definition, ...]:
    """ClusterTrustBundle; v1beta1 is stored."""
    stored = Definition(
        group=names.group("certificates"),
        version="v1beta1",
        kind="ClusterTrustBundle",
        plural="clustertrustbundles",
        namespaced=False,
        check_name=name_is_path_segment,
        fields=_bundle_struct("v1beta1"),
        since="1.33",
        deprecated="1.37",
        gate="ClusterTrustBundle",
        on_by_default=False,
        selection=Selection(
            fields={"spec.signerName": lambda stored: str(stored["spec"].get("signerName", ""))},
            own_label_conversion=True,
        ),
        table=Table(
            (
                NAME,
                Column(
                    "SignerName",
                    "string",
                    "Signer whose certificates the bundle verifies.",
                    lambda stored, _: stored["spec"].get("signerName") or NONE,
                ),
            )
        ),
        strategy=Strategy(
            validates_metadata=True,
            validate_create=trust_bundle_rules,
            validate_update=trust_bundle_update_rules,
        ),
    )
    same = Conversion(to_storage=dict, from_storage=dict)

    def ends(deprecated: str, removed: str) -> str:
        return f"{stored.group}/v1alpha1 {stored.kind} is deprecated in v{deprecated}+, unavailable in v{removed}+"

    alpha = replace(
        stored,
        version="v1alpha1",
        fields=_bundle_struct("v1alpha1"),
        since="1.27",
        deprecated="1.29",
        deprecation_warning=Worded(
            ends("1.29", "1.32"), lambda features: _end_of_alpha_bundles(ends, features)
        ),
        storage=Storage(stored_as=stored.type_name, conversion=same),
    )
    return stored, alpha


def _end_of_alpha_bundles(ends: Callable[[str, str], str], features: frozenset[str]) -> str:
    """Kubernetes counted the time of this version anew when it gave the kind up for a while and took it up again."""
    if ALPHA_BUNDLES_END in features:
        return ends("1.34", "1.37")
    return "" if ALPHA_BUNDLES_STAY in features else ends("1.29", "1.32")


def bundle_name(signer: str, name: str, prefix: bool) -> list[str]:
    if not signer:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return name_is_subdomain(name, prefix)
    start = f"{signer.replace('/', ':')}:"
    if not name.startswith(start):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {start}"]
    return name_is_subdomain(name.removeprefix(start), prefix)


def trust_bundle_rules(errors: FieldErrors, new: Object, *, parses: bool = True) -> None:
    spec = new["spec"]
    signer = spec.get("signerName", "")
    check_name = partial(bundle_name, signer)
    metadata_rules(errors, new["metadata"], namespaced=False, check_name=check_name)
    if signer:
        signer_rules(errors, signer, "spec.signerName")
    if parses:
        _trust_anchor_rules(errors, spec["trustBundle"], "spec.trustBundle")


def trust_bundle_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    spec, before = new["spec"], old["spec"]
    trust_bundle_rules(errors, new, parses=spec["trustBundle"] != before["trustBundle"])
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    unchanged(errors, "spec.signerName", spec.get("signerName", ""), before.get("signerName", ""))


def _trust_anchor_rules(errors: FieldErrors, text: str, field: str) -> None:
    if size(text) > LONGEST_BUNDLE:
        errors.add(too_long(field, LONGEST_BUNDLE))
        return
    if len(text) > LARGE_BUNDLE:
        need_thread()
    wrong, found = False, dict[bytes, list[int]]()
    for index, block in enumerate(blocks_of(text)):
        why = why_no_authority(block)
        if why:
            wrong = True
            errors.add(invalid(field, "<value omitted>", f"entry {index} {why}"))
        found.setdefault(block.content, []).append(index)
    if wrong:
        return
    if not found:
        errors.add(invalid(field, "<value omitted>", "at least one trust anchor must be provided"))
    for places in found.values():
        if len(places) > 1:
            listed = " ".join(map(str, places))
            errors.add(invalid(field, "<value omitted>", f"duplicate trust anchor (indices [{listed}])"))


LONGEST_UID: Final = 128
LONGEST_KEY: Final = 10 * 1024
LONGEST_CHAIN: Final = 100 * 1024
SHORTEST, LONGEST, LONGEST_OF_KUBERNETES = 3600, 91 * 24 * 3600, 24 * 3600  # validity in seconds
OUTCOMES: Final = ("Issued", "Denied", "Failed")
REFRESH_MARGIN: Final = 600 * 1_000_000  # microseconds
_IS_EMAIL = re.compile(r"[^\s@]+@[^\s@]+").fullmatch


def _pod_request_structs(version: str) -> tuple[Struct, Struct, Struct]:
    """The spec, the status and the whole of a PodCertificateRequest; v1alpha1 lacks what came later."""
    alpha = version == "v1alpha1"
    required_key = {"required": True} if alpha else {"before": (Before("1.36", required=True),)}
    later = (
        Field("stubPKCS10Request", BYTES, 12, required=True, always=True, since="1.36"),
        Field("unverifiedUserAnnotations", STRING_MAP, 11),
    )
    spec = Struct(
        f"certificates.{version}.PodCertificateRequestSpec",
        Field("signerName", STRING, 1, required=True, always=True),
        Field("podName", STRING, 2, required=True, always=True),
        Field("podUID", STRING, 3, required=True, always=True),
        Field("serviceAccountName", STRING, 4, required=True, always=True),
        Field("serviceAccountUID", STRING, 5, required=True, always=True),
        Field("nodeName", STRING, 6, required=True, always=True),
        Field("nodeUID", STRING, 7, required=True, always=True),
        Field("maxExpirationSeconds", INT32, 8, pointer=True, default=86400),
        Field("pkixPublicKey", BYTES, 9, always=True, **required_key),
        Field("proofOfPossession", BYTES, 10, always=True, **required_key),
        *(() if alpha else later),
    )
    conditions = Field(
        "conditions",
        ListOf(META_CONDITION),
        1,
        patch="merge",
        merge_key="type",
        list_type="map",
        list_keys=("type",),
    )
    status = Struct(
        f"certificates.{version}.PodCertificateRequestStatus",
        conditions,
        Field("certificateChain", STRING, 2),
        Field("notBefore", TIME, 4, pointer=True),
        Field("beginRefreshAt", TIME, 5, pointer=True),
        Field("notAfter", TIME, 6, pointer=True),
    )
    whole = Struct(
        f"certificates.{version}.PodCertificateRequest",
        METADATA,
        Field("spec", spec, 2, required=True),
        Field("status", status, 3),
    )
    return spec, status, whole


POD_REQUEST_SPEC, POD_REQUEST_STATUS, POD_REQUEST = _pod_request_structs("v1beta1")


def _state_cell(stored: Object, _: int) -> str:
    states = [one["type"] for one in stored["status"].get("conditions", ()) if one["type"] in OUTCOMES]
    return states[-1] if states else "Pending"


def _annotations_cell(stored: Object, _: int) -> str:
    annotations = stored["spec"].get("unverifiedUserAnnotations", {})
    return ",".join(f"{key}={value}" for key, value in sorted(annotations.items())) or NONE


POD_REQUEST_COLUMNS: Final = (
    NAME,
    Column("PodName", "string", "Pod that the certificate is for.", at("spec", "podName")),
    Column("ServiceAccountName", "string", "Service account of the pod.", at("spec", "serviceAccountName")),
    Column("NodeName", "string", "Node that the pod runs on.", at("spec", "nodeName")),
    Column("SignerName", "string", "Signer that should issue the certificate.", at("spec", "signerName")),
    Column("State", "string", "Is the request Pending, Issued, Denied, or Failed?", _state_cell),
    Column(
        "UnverifiedUserAnnotations",
        "string",
        "What the author of the pod wants the signer to know.",
        _annotations_cell,
        priority=1,
        since="1.35",
    ),
)


def define_pod_requests(names: Names) -> tuple[Definition, ...]:
    """PodCertificateRequest; v1beta1 is stored."""
    stored = Definition(
        group=names.group("certificates"),
        version="v1beta1",
        kind="PodCertificateRequest",
        plural="podcertificaterequests",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=POD_REQUEST,
        since="1.35",
        deprecated="1.38",
        gate="PodCertificateRequest",
        on_by_default=False,
        subresources=(
            Subresource(
                name="status",
                prepare=keep_spec_and_metadata,
                validate=pod_request_status_rules,
                reset_fields=("spec",),
            ),
        ),
        selection=Selection(
            fields={
                f"spec.{part}": partial(_spec_part, part) for part in ("signerName", "podName", "nodeName")
            },
            own_label_conversion=True,
        ),
        table=Table(POD_REQUEST_COLUMNS),
        strategy=Strategy(
            allow_unconditional_update=False,
            reset_fields=(),
            prepare_for_create=partial(clear_status, POD_REQUEST_STATUS),
            prepare_for_update=keep_status,
            validate_create=partial(pod_request_rules, f".{names.key_domain}"),
            validate_update=pod_request_update_rules,
        ),
    )
    alpha = replace(
        stored,
        version="v1alpha1",
        fields=_pod_request_structs("v1alpha1")[2],
        since="1.34",
        until="1.34",
        deprecated="1.37",
        storage=Storage(
            stored_as=stored.type_name,
            conversion=Conversion(to_storage=_from_alpha, from_storage=_to_alpha),
        ),
    )
    return stored, alpha


def _spec_part(part: str, stored: Object) -> str:
    return str(stored["spec"][part])


def _from_alpha(request: Object) -> Object:
    return {**request, "spec": POD_REQUEST_SPEC.arranged({**request["spec"], "stubPKCS10Request": None})}


def _to_alpha(request: Object) -> Object:
    later = ("stubPKCS10Request", "unverifiedUserAnnotations")
    return {
        **request,
        "spec": {part: value for part, value in request["spec"].items() if part not in later},
    }


def pod_request_rules(own_domain: str, errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    signer_rules(errors, spec["signerName"], "spec.signerName")
    annotations = spec.get("unverifiedUserAnnotations", {})
    for key in annotations:
        domain_prefixed_key(errors, "spec.unverifiedUserAnnotations", key.lower())
    if sum(size(key) + size(value) for key, value in annotations.items()) > MAX_ANNOTATION_BYTES:
        errors.add(too_long("spec.unverifiedUserAnnotations", MAX_ANNOTATION_BYTES))
    for part in ("pod", "serviceAccount", "node"):
        name, uid = spec[f"{part}Name"], spec[f"{part}UID"]
        errors.add_each(f"spec.{part}Name", name, name_is_subdomain(name, False))
        if not uid:
            errors.add(invalid(f"spec.{part}UID", uid, "must not be empty"))
        if size(uid) > LONGEST_UID:
            errors.add(too_long(f"spec.{part}UID", LONGEST_UID))
    if "maxExpirationSeconds" not in spec:
        errors.add(required("spec.maxExpirationSeconds", "must be set"))
        return
    _validity_rules(errors, spec, own_domain)
    _key_rules(errors, spec)


def _validity_rules(errors: FieldErrors, spec: Object, own_domain: str) -> None:
    """Signers of Kubernetes issue certificates for at most a day, others for at most 91 days."""
    domain = f".{spec['signerName'].partition('/')[0]}"
    longest = LONGEST_OF_KUBERNETES if domain.endswith(own_domain) else LONGEST
    seconds = spec["maxExpirationSeconds"]
    if not SHORTEST <= seconds <= longest:
        text = f"must be in the range [{SHORTEST}, {longest}]"
        errors.add(invalid("spec.maxExpirationSeconds", seconds, text))


def _key_rules(errors: FieldErrors, spec: Object) -> None:
    stub, key, proof = (
        base64.b64decode(spec.get(part) or "")
        for part in ("stubPKCS10Request", "pkixPublicKey", "proofOfPossession")
    )
    if STUB_REQUESTS in errors.features and not (bool(stub) != bool(key) and bool(key) == bool(proof)):
        text = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
        errors.add(invalid("spec", OMITTED, text))
        return
    parts = {"stubPKCS10Request": stub} if stub else {"pkixPublicKey": key, "proofOfPossession": proof}
    for part, content in parts.items():
        if len(content) > LONGEST_KEY:
            errors.add(too_long(f"spec.{part}", LONGEST_KEY))
            return
    try:
        if stub:
            check_stub_request(stub)
        else:
            check_public_key(key, spec["podUID"].encode(), proof)
    except InvalidKey as error:
        shows_key = error.value is None and error.part == "pkixPublicKey"
        value = (spec["pkixPublicKey"] or None) if shows_key else error.value or OMITTED
        errors.add(invalid(f"spec.{error.part}", value, error.why))


def pod_request_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    if new["spec"] != old["spec"]:
        errors.add(invalid("spec", shown(POD_REQUEST_SPEC, new["spec"]), IMMUTABLE))


def pod_request_status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    """A signer issues, denies or fails a request once. Admission compares the validity with the clock."""
    if errors.added_by(metadata_update_rules, new["metadata"], old["metadata"]):
        return
    status, before = new["status"], old["status"]
    if errors.added_by(_outcome_rules, status.get("conditions", [])):
        return
    outcome, known = (_state_cell(one, 0) for one in (new, old))
    if known != "Pending":
        text = "immutable after PodCertificateRequest is issued, denied, or failed"
        _equal_status(errors, status, before, text)
    elif outcome == "Issued":
        _issue_rules(errors, new["spec"], status)
    elif outcome in OUTCOMES:
        text = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
        _equal_status(errors, status, {"conditions": status["conditions"]}, text)
    else:
        text = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
        _equal_status(errors, status, before, text)


def _equal_status(errors: FieldErrors, status: Object, wanted: Object, text: str) -> None:
    if status != wanted:
        errors.add(invalid("status", OMITTED, text))


def _outcome_rules(errors: FieldErrors, conditions: list[Object]) -> None:
    known = 0
    for index, one in enumerate(conditions):
        field = f"status.conditions.[{index}]"
        if one["type"] not in OUTCOMES:
            errors.add(not_supported(f"{field}.type", one["type"], OUTCOMES))
            continue
        known += 1
        if known > 1:
            text = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.add(invalid(f"{field}.type", one["type"], text))
        if one["status"] != "True":
            errors.add(not_supported(f"{field}.status", one["status"], ("True",)))
    condition_rules(errors, conditions, "status.conditions")


def _issue_rules(errors: FieldErrors, spec: Object, status: Object) -> None:
    """The rules of an issued certificate; like Kubernetes, most of them end at the first error."""
    chain, field = status.get("certificateChain", ""), "status.certificateChain"
    if size(chain) > LONGEST_CHAIN:
        errors.add(too_long(field, LONGEST_CHAIN))
        return
    try:
        leaf = issued_certificate(chain)
    except InvalidPEM as why:
        errors.add(invalid(field, chain, str(why)))
        return
    if CHECKED_CERTIFICATE_NAMES in errors.features:
        _subject_rules(errors, leaf, field)
    stub = base64.b64decode(spec.get("stubPKCS10Request") or "")
    if not has_key_of(leaf, stub, base64.b64decode(spec["pkixPublicKey"] or "")):
        text = "leaf certificate was not issued to the requested public key"
        errors.add(invalid(field, chain, text))
        return
    consistent = "must be present and consistent with the issued certificate"
    for part, text in (
        ("notBefore", consistent),
        ("notAfter", consistent),
        ("beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]"),
    ):
        if not status.get(part):
            errors.add(required(f"status.{part}", text))
    if errors.found:
        return
    error = _validity_error(spec, status, leaf) or _chain_error(chain)
    if error is not None:
        errors.add(error)


def _subject_rules(errors: FieldErrors, leaf: IssuedCertificate, field: str) -> None:
    for name in leaf.dns_names:
        if not name:
            errors.add(invalid(field, name, "leaf certificate should not contain empty DNSName"))
        if ".." in name:
            errors.add(invalid(field, name, "leaf certificate's DNSName should not contain '..'"))
        if name.startswith(".") or name.endswith("."):
            errors.add(invalid(field, name, "leaf certificate's DNSName should not start or end with '.'"))
    for address in leaf.email_addresses:
        if not _IS_EMAIL(address):
            text = "leaf certificate should not contain invalid EmailAddress"
            errors.add(invalid(field, address, text))


def _validity_error(spec: Object, status: Object, leaf: IssuedCertificate) -> FieldError | None:
    """The first error of the times of an issued certificate, in microseconds since 1970."""
    start, end, refresh = (micros_of(status[part]) for part in ("notBefore", "notAfter", "beginRefreshAt"))
    for part, found, given in (("NotBefore", leaf.start, start), ("NotAfter", leaf.end, end)):
        if found != given:
            name = part[0].lower() + part[1:]
            text = f"must be set to the {part} time encoded in the leaf certificate"
            return invalid(f"status.{name}", status[name], text)
    lifetime, longest = leaf.end - leaf.start, spec["maxExpirationSeconds"]
    chain = "status.certificateChain"
    if lifetime < SHORTEST * 1_000_000:
        return invalid(chain, lifetime * 1000, "leaf certificate lifetime must be >= 1 hour")
    if lifetime > longest * 1_000_000:
        text = f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({longest})"
        return invalid(chain, lifetime * 1000, text)
    given = status["beginRefreshAt"]
    if refresh < start + REFRESH_MARGIN:
        return invalid("status.beginRefreshAt", given, "must be at least 10 minutes after status.notBefore")
    if refresh > end - REFRESH_MARGIN:
        return invalid("status.beginRefreshAt", given, "must be at least 10 minutes before status.notAfter")
    return None


def _chain_error(chain: str) -> FieldError | None:
    for block in list(blocks_of(chain))[1:]:
        if block.kind != "CERTIFICATE":
            text = "issued certificate chain must consist entirely of CERTFICATE PEM blocks"
            return invalid("status.certificateChain", chain, text)
        if not is_certificate(block):
            text = "intermediate certificate does not parse as valid X.509"
            return invalid("status.certificateChain", chain, text)
    return None
