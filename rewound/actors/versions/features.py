"""What code can ask about the version of a server, and the parser of `--feature-gates Name=true|false,...`.

A server has one set of features that are on, `Release.features`, and code asks whether a name is in it:

    if SCALE_TO_ZERO in features: ...

A name is a feature gate, with stage and default by version (`gates`), or a change that Kubernetes made without a gate,
which is on in the versions that its declaration names. Changes cannot be switched.

Of the gates, those below have an effect here and can be switched unless their version locks them. Other gates of the
version keep their default: giving them another value is refused, because the server would not obey.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

import msgspec

from rewound.actors.versions.gates import Gate, gates_of, outlived_by_features
from rewound.actors.versions.version import (
    DOCUMENTS_DIALECT,
    FIRST,
    NEWEST,
    PATCH_RELEASES,
    exists_in,
    later,
    nearest_version,
    record_of,
    stored_version,
)

_gates: list[str] = []
_effective_since: dict[str, str] = {}


def _gate(name: str, since: str = "") -> str:
    """Declare a gate; one with `since` has no effect in earlier versions, although they have it."""
    _gates.append(name)
    if since:
        _effective_since[name] = since
    return name


class Change(msgspec.Struct, frozen=True):
    """Behaviour that differs between versions without a gate."""

    name: str
    does: str  # what a server does in these versions
    since: str
    until: str


_changes: list[Change] = []


def _change(name: str, does: str, *, since: str = "", until: str = "") -> str:
    _changes.append(Change(name, does, since, until))
    return name


_libraries: list[str] = []


def _library(name: str, holds: str, *, since: str, new: str = "") -> str:
    """A part of CEL. Stored expressions may use it since a version, and new ones since `new`, or the version after."""
    _libraries.append(_change(name, f"new CEL expressions may use {holds}", since=new or later(since, 1)))
    _change(in_stored_expressions(name), f"stored CEL expressions may use {holds}", since=since)
    return name


def in_stored_expressions(library: str) -> str:
    """Return the name of the change by which stored expressions may use a library."""
    return f"stored-{library}"


CONTAINER_METRICS: Final = _gate("HPAContainerMetrics")
SCALE_TO_ZERO: Final = _gate("HPAScaleToZero")
AUTO_DELETE: Final = _gate("StatefulSetAutoDeletePVC")
MAX_UNAVAILABLE: Final = _gate("MaxUnavailableStatefulSet")
SEMANTIC_REVISIONS: Final = _gate("StatefulSetSemanticRevisionComparison")
FAILURE_POLICY: Final = _gate("JobPodFailurePolicy")
READ_WRITE_ONCE_POD: Final = _gate("ReadWriteOncePod")  # also the name of the access mode
NODE_EXPAND_SECRET: Final = _gate("CSINodeExpandSecret")
RECOVER_EXPANSION: Final = _gate("RecoverVolumeExpansionFailure")
RETROACTIVE_CLASS: Final = _gate("RetroactiveDefaultStorageClass")
SE_LINUX_MOUNT: Final = _gate("SELinuxMountReadWriteOncePod")
POLICY_STATUS: Final = _gate("NetworkPolicyStatus")
USER_NAMESPACES: Final = _gate("UserNamespacesStatelessPodsSupport")
PROC_MOUNT: Final = _gate("ProcMountType")
EXPANDED_DNS: Final = _gate("ExpandedDNSConfig")
SPREAD_INCLUSION: Final = _gate("NodeInclusionPolicyInPodTopologySpread")
SPREAD_LABEL_KEYS: Final = _gate("MatchLabelKeysInPodTopologySpread")
MIN_DOMAINS: Final = _gate("MinDomainsInPodTopologySpread")
SCHEDULING_GATES: Final = _gate("PodSchedulingReadiness")
DISRUPTION_CONDITIONS: Final = _gate("PodDisruptionConditions")
OUT_OF_SERVICE: Final = _gate("NodeOutOfServiceVolumeDetach")
SEPARATE_TAINT_EVICTION: Final = _gate("SeparateTaintEvictionController")
SIDECARS: Final = _gate("SidecarContainers")
RESIZE: Final = _gate("InPlacePodVerticalScaling")
RESIZE_INIT: Final = _gate("InPlacePodVerticalScalingInitContainers")
RESIZE_POD_LEVEL: Final = _gate("InPlacePodLevelResourcesVerticalScaling")
POD_LEVEL_RESOURCES: Final = _gate("PodLevelResources")
RESTART_RULES: Final = _gate("ContainerRestartRules")
RESTART_ALL: Final = _gate("RestartAllContainersOnContainerExits")
SHORT_BACK_OFF: Final = _gate("ReduceDefaultCrashLoopBackOffDecay")
UNUSED_CLAIMS: Final = _gate("PersistentVolumeClaimUnusedSinceTime")
SLEEP_ACTION: Final = _gate("PodLifecycleSleepAction")
SLEEP_ZERO: Final = _gate("PodLifecycleSleepActionAllowZero")
STOP_SIGNALS: Final = _gate("ContainerStopSignals")
ENV_FILES: Final = _gate("EnvFiles")
RELAXED_VARIABLES: Final = _gate("RelaxedEnvironmentVariableValidation")
RELAXED_SERVICE_NAMES: Final = _gate("RelaxedServiceNameValidation")
RELAXED_SEARCHES: Final = _gate("RelaxedDNSSearchValidation")
USER_NAMESPACES_SUPPORT: Final = _gate("UserNamespacesSupport")
USER_NAMESPACES_HOST_NETWORK: Final = _gate("UserNamespacesHostNetworkSupport")
AFFINITY_LABEL_KEYS: Final = _gate("MatchLabelKeysInPodAffinity")
SPREAD_SELECTOR_MERGE: Final = _gate("MatchLabelKeysInPodTopologySpreadSelectorMerge")
TOLERATION_COMPARISONS: Final = _gate("TaintTolerationComparisonOperators")
SE_LINUX_MOUNT_ALL: Final = _gate("SELinuxMount")
IMAGE_VOLUMES: Final = _gate("ImageVolume")
READ_ONLY_MOUNTS: Final = _gate("RecursiveReadOnlyMounts")
GROUPS_POLICY: Final = _gate("SupplementalGroupsPolicy")
DECLARED_FEATURES: Final = _gate("NodeDeclaredFeatures")
DECLARED_CPU_RESIZE: Final = _change(
    "declared-cpu-resize",
    "where nodes declare features, they declare that they resize the CPU of guaranteed pods",
    since="1.35",
    until="1.35",
)
RESIZES_CHECKED: Final = _change(
    "resizes-checked", "refuses to resize a pod to more than its node has", since="1.36"
)
DECLARED_LATER: Final = _change(
    "declared-later",
    "where nodes declare features, they declare WebSockets, resizes of init containers and host networks of pods in "
    "user namespaces",
    since="1.36",
)
APP_ARMOR_FIELDS: Final = _gate("AppArmorFields")
APP_ARMOR_ANNOTATIONS: Final = _change(
    "app-armor-annotations",
    "annotates pods with the AppArmor profiles of their fields",
    since="1.30",
    until="1.33",
)
HOST_IPS: Final = _gate("PodHostIPs")
NOMINATION_ENDS: Final = _gate("ClearingNominatedNodeNameAfterBinding")
NOMINATION_OF_BINDING: Final = _gate("NominatedNodeNameForExpectation")
TOPOLOGY_LABELS: Final = _gate("PodTopologyLabelsAdmission")
LIST_CHUNKING: Final = _gate("APIListChunking")  # lists honour limit and continue
SELECTORS: Final = _gate("AuthorizeWithSelectors")  # authorizers see the selectors of lists
AUTHORIZATION_CONFIG: Final = _gate("StructuredAuthorizationConfiguration")  # --authorization-config
AUTHORIZATION_CONFIG_BETA: Final = _change(
    "authorization-config-v1beta1", "reads an AuthorizationConfiguration also in v1beta1", since="1.30"
)
AUTHORIZATION_CONFIG_V1: Final = _change(
    "authorization-config-v1", "reads an AuthorizationConfiguration also in v1", since="1.32"
)
WEBHOOK_CACHE_SWITCHES: Final = _change(
    "webhook-cache-switches",
    "an AuthorizationConfiguration can switch off the caches of its webhooks",
    since="1.34",
)
NODE_SELECTORS: Final = _gate("AuthorizeNodeWithSelectors")  # nodes may list only their own pods and node
UNSAFE_DELETES: Final = _gate("AllowUnsafeMalformedObjectDeletion")  # deletes that ignore read errors
WATCH_LIST: Final = _gate("WatchList")  # watches honour sendInitialEvents
LIST_BLUEPRINTS: Final = _change(
    "list-blueprints",
    "puts an empty list into the bookmark after initial events, and does not send these as Tables",
    since="1.32",
    until="1.33",
)
END_IN_TABLES: Final = _change(
    "initial-events-end-in-tables",
    "the bookmark after initial events has its annotation also in Tables without objects",
    since="1.34",
)
CBOR: Final = _gate("CBORServingAndStorage")  # objects are served in CBOR; storage is ours
PARTIAL_KEYS: Final = _change(
    "partial-keys", "an applied entry of a list needs only one of the keys of the list", since="1.34"
)
OS_NAME_REQUIRED: Final = _change(
    "os-name-required", "says no more than that the operating system of a pod needs a name", since="1.34"
)
AUTOSCALERS_AS_SENT: Final = _change(
    "autoscalers-as-sent",
    "stores autoscalers as v2: the CPU metric keeps its place, and targets keep their types",
    since="1.27",
)
TOLERATIONS_NAMED_ONCE: Final = _change(
    "tolerations-named-once", "names the list of tolerations of a RuntimeClass once in errors", since="1.35"
)
DIRECTIVES_EVERYWHERE: Final = _change(
    "directives-everywhere",
    "obeys directives of a strategic merge patch also where the object has no value yet, and deletes values from any "
    "list",
    since="1.28",
)
EXTERNAL_IDS_DEPRECATED: Final = _change(
    "external-ids-deprecated", "warns of the external id of a node", since="1.27"
)
TARGET_GROUPS: Final = _change(
    "target-groups",
    "wants the API group of what an autoscaler scales, or of the object it measures",
    since="1.34",
)
HOST_NETWORK_SELECTED: Final = _change(
    "host-network-selected", "selects pods by spec.hostNetwork", since="1.28"
)
LONG_NAMES: Final = _change(
    "long-names",
    "counts the bytes of names of replication controllers and device classes, and checks no names to be generated",
    since="1.35",
)
CONTROLLERS_VALIDATED_ONCE: Final = _change(
    "controllers-validated-once", "validates updates of replication controllers once", since="1.35"
)
AUTOSCALER_TEXTS: Final = _change(
    "autoscaler-texts", "says of an autoscaler without a maximum that it is required", since="1.36"
)
ADDRESS_EXAMPLES: Final = _change(
    "address-examples", "gives examples in the text about an invalid address of a load balancer", since="1.30"
)
CLASSES_IMMUTABLE: Final = _change(
    "classes-immutable",
    "calls fields of storage classes immutable, and not forbidden to update",
    since="1.36",
)
REMOVAL_VERSION: Final = _change(
    "removal-version", "responds to a delete with the resourceVersion of the removal", since="1.26"
)
GATED_IN_TABLES: Final = _change(
    "scheduling-gates-in-tables", "prints SchedulingGated for pods that wait for their gates", since="1.26"
)
SIDECARS_IN_TABLES: Final = _change(
    "sidecars-in-tables", "counts restartable init containers of pods as containers", since="1.28"
)
ENDED_IN_TABLES: Final = _change(
    "ended-pods-in-tables", "does not print Terminating for pods that have ended", since="1.31"
)
ERRORS_IN_TABLES: Final = _change(
    "errors-in-tables", "prints the error of a pod's container although another one completed", since="1.35"
)
INITIAL_EVENTS: Final = _change(
    "sendInitialEvents", "checks sendInitialEvents, and refuses it while WatchList is off", since="1.27"
)
AGGREGATED_DISCOVERY: Final = _gate("AggregatedDiscoveryEndpoint")
NO_BETA_DISCOVERY: Final = _gate("AggregatedDiscoveryRemoveBetaType")
OUR_DISCOVERY: Final = _change(
    "aggregated-discovery",
    "serves aggregated discovery in the versions v2 and v2beta1, which Kubernetes has only later",
    until="1.25",
)
STABLE_DISCOVERY: Final = _change(
    "aggregated-discovery-v2", "serves aggregated discovery in the version v2", since="1.30"
)
SINGULAR_NAMES: Final = _change(
    "singular-names", "lists the singular names of built-in kinds in discovery", since="1.27"
)
DEVICES_BEFORE_FLOWS: Final = _change(
    "devices-before-flows",
    "lists the group of devices before that of flow control in discovery",
    since="1.32",
)

ROLES_VALIDATED_ONCE: Final = _change(
    "roles-validated-once", "validates updates of roles and their bindings once", since="1.35"
)
ROLES_IN_CONTEXT: Final = _change(
    "missing-roles-in-context",
    "a refusal because of a role that does not exist names the requested resource instead of roles",
    since="1.32",
)
SCALES_NOT_NAMED: Final = _change(
    "scales-not-named", "says of the scale of a missing object that the object was not found", since="1.33"
)
TLS_WARNINGS: Final = _change(
    "tls-warnings",
    "warns of secrets of the type tls whose key and certificate do not belong together",
    since="1.27",
)
CLASSES_STABLE: Final = _change(
    "attributes-classes-stable",
    "names the version v1 of VolumeAttributesClass in warnings of older ones",
    since="1.34",
)
ALPHA_BUNDLES_STAY: Final = _change(
    "alpha-bundles-stay",
    "does not call the first version of ClusterTrustBundle deprecated",
    since="1.32",
    until="1.33",
)
ALPHA_BUNDLES_END: Final = _change(
    "alpha-bundles-end", "calls the first version of ClusterTrustBundle deprecated since 1.34", since="1.34"
)
BARE_SIGNERS: Final = _change(
    "bare-signers", "says no more than that the name of a signer is required", since="1.26"
)
CHECKED_CERTIFICATE_NAMES: Final = _change(
    "checked-certificate-names",
    "validates host names and addresses in certificates that pods get",
    since="1.35",
)
STUB_REQUESTS: Final = _change(
    "stub-requests",
    "takes a PKCS#10 request in the place of a key that a pod certificate is for",
    since="1.36",
)
POD_CERTIFICATES: Final = _gate("PodCertificateRequest")
TRUST_BUNDLES: Final = _gate("ClusterTrustBundle")
CREDENTIAL_PROVIDER_TOKENS: Final = _gate("KubeletServiceAccountTokenForCredentialProviders")
NODE_AUDIENCES: Final = _gate(
    "ServiceAccountNodeAudienceRestriction"
)  # nodes get tokens for audiences of pods
ANY_NODE_REQUESTS: Final = _gate("AllowInsecureKubeletCertificateSigningRequests")
NODE_CLAIM_STATUSES: Final = _change(
    "node-claim-statuses", "lets no node change the resource claims in the status of a pod", since="1.28"
)
NODE_EXTENDED_CLAIMS: Final = _change(
    "node-extended-claims",
    "lets no node change the claims of extended resources in the status of a pod",
    since="1.34",
)
NODE_QUANTITY_TEXT: Final = _change(
    "node-quantity-text", "speaks of the quantity where a node changes other fields of a claim", since="1.30"
)
NODE_OWNERS: Final = _change("node-owners", "lets no node change the owners of its Node", since="1.31")
NODE_SLICES: Final = _change(
    "node-slices", "lets nodes create and delete only their own resource slices", since="1.30"
)
NODE_REQUESTS: Final = _change(
    "node-requests", "lets nodes request node certificates only for themselves", since="1.31"
)
MIRROR_CLAIMS: Final = _change(
    "mirror-claims", "refuses mirror pods that refer to resource claims", since="1.29"
)
MIRROR_BUNDLES: Final = _change(
    "mirror-bundles", "refuses mirror pods that refer to trust bundles", since="1.32"
)
MIRROR_VOLUMES: Final = _change(
    "mirror-volumes", "refuses mirror pods with volumes that need any object of the API", since="1.34"
)
NODE_POD_CERTIFICATES: Final = _change(
    "node-pod-certificates", "lets nodes request pod certificates only for their own pods", since="1.34"
)
# Authentication by tokens of identity providers.
ISSUERS_IN_FILE: Final = _gate("StructuredAuthenticationConfiguration")  # --authentication-config
ANONYMOUS_PATHS: Final = _gate("AnonymousAuthConfigurableEndpoints")
EGRESS_OF_ISSUERS: Final = _gate("StructuredAuthenticationConfigurationEgressSelector")
KEY_SET_METRICS: Final = _gate("StructuredAuthenticationConfigurationJWKSMetrics")
SEVERAL_ISSUERS: Final = _change(
    "several-issuers",
    "accepts several issuers, audiences and discovery URLs in the authentication configuration, and its v1beta1",
    since="1.30",
)
ANONYMOUS_IN_FILE: Final = _change(
    "anonymous-in-configuration",
    "accepts `anonymous` in the authentication configuration",
    since="1.31",
)
IDS_OF_ISSUERS: Final = _change(
    "token-ids-of-issuers",
    "has the id of an identity provider's token in the extra fields of its user, and reserves its own domains there",
    since="1.32",
)
AUTHENTICATION_V1: Final = _change(
    "authentication-config-v1",
    "accepts v1 of the authentication configuration and `egressSelectorType`, reads numbers in claims as doubles, and "
    "claims whose names have dots as `claims.a__dot__b`",
    since="1.34",
)
TOKEN_IDS: Final = _gate("ServiceAccountTokenJTI")  # tokens of service accounts have an id
ISSUED_IDS: Final = _change(
    "issued-ids", "audits the id of an issued token apart from that of the request's own", since="1.30"
)
CONSTRAINED_IMPERSONATION: Final = _gate(
    "ConstrainedImpersonation"
)  # for some verbs, or as some kinds of users
LEGACY_TOKENS_TRACKED: Final = _gate(
    "LegacyServiceAccountTokenTracking"
)  # when one in a Secret was last used
LEGACY_TOKENS_CLEANED: Final = _gate("LegacyServiceAccountTokenCleanUp")  # unused generated ones are deleted
FLOW_STATUS_APPLIED: Final = _change(
    "flow-status-applied", "applies the status of FlowSchemas instead of replacing it", since="1.26"
)
MATCH_RESOURCES_NAMED: Final = _change(
    "match-resources-named",
    "errors about the resources of a policy binding name the field correctly",
    since="1.32",
)
EMBEDDED_NAMES: Final = _change(
    "embedded-names", "errors about values of a wrong type name the embedded structs of Go", since="1.35"
)
LEGACY_TOKENS_AUDITED: Final = _change(
    "legacy-tokens-audited",
    "audits how the Secret of a token was created, and refuses tokens in Secrets that are marked invalid",
    since="1.29",
)
TOKEN_NODES: Final = _gate("ServiceAccountTokenPodNodeInfo")  # tokens bound to a pod name its node
TOKENS_OF_NODES: Final = _gate("ServiceAccountTokenNodeBinding")  # tokens may be bound to nodes
ACCOUNT_UIDS: Final = _gate("TokenRequestServiceAccountUIDValidation")  # TokenRequests have the account's uid
NODE_TOKENS_KNOWN: Final = _change(
    "node-tokens-known", "refusals of tokens bound to nodes name the feature gate", since="1.29"
)
USAGES_TEXT: Final = _change(
    "usages-text", "an error says no more than that usages of a signing request are required", since="1.26"
)
APPROVALS_FIELD: Final = _change(
    "approvals-field", "errors of requests both approved and denied name the list of conditions", since="1.34"
)
CIDR_STATUS_WIPING: Final = _gate("ServiceCIDRStatusFieldWiping")  # writes of a ServiceCIDR keep its status
PODS_DELETED_FIRST: Final = _gate("OrderedNamespaceDeletion")  # before anything else of their namespace
ATTRIBUTES_CLASSES: Final = _gate("VolumeAttributesClass")
ZERO_SHARES: Final = _gate(
    "ZeroLimitedNominalConcurrencyShares"
)  # a limited priority level may have no shares
LENDING: Final = _change("lending", "priority levels lend concurrency to others", since="1.26")
EXEMPT_SHARES: Final = _change("exempt-shares", "the exempt priority level has shares", since="1.28")
ZERO_ANNOTATION: Final = _change(
    "zero-annotation", "only v1beta3 has the annotation of priority levels without shares", since="1.29"
)
ONLY_LEASES_LOCK: Final = _change(
    "only-leases-lock", "no flow schema is for leader election by endpoints and config maps", since="1.34"
)
FLOW_CONTROL_TEXTS: Final = _change(
    "flow-control-texts", "flow control reports missing types as declarative validation does", since="1.34"
)
RESULT_TYPE_IN_TEXTS: Final = _change(
    "result-type-in-texts", "errors of expressions with a wrong result name its type", since="1.32"
)
UNTYPED_PARAMS: Final = _change(
    "untyped-params", "type checks of policies accept parameters of an unknown kind", since="1.36"
)
IDENTIFIER_TEXT: Final = _change(
    "identifier-text", "errors of variables and messages of policies say what they must be", since="1.34"
)
NO_NULL_CREATION_TIME: Final = _change(
    "no-null-creation-time", "what has no creation time omits it instead of having null", since="1.34"
)
REVIEW_OF_ANY_VERSION: Final = _change(
    "review-of-any-version", "access reviews that name no version ask about any", since="1.28"
)
NODES_GET_ACCOUNTS: Final = _change(
    "nodes-get-accounts", "the Node authorizer has a rule for getting service accounts", since="1.33"
)
NODES_WRITE_NEW_EVENTS: Final = _change(
    "nodes-write-new-events", "nodes write events of the group events too", since="1.35"
)
RETRY_GENERATE_NAME: Final = _gate("RetryGenerateName")  # a generated name that exists is replaced by another
RATCHETING: Final = _gate("CRDValidationRatcheting")  # values that an update does not change are not refused
FIELD_SELECTORS: Final = _gate("CustomResourceFieldSelectors")
OWNED_CUSTOM_SCALES: Final = _change(
    "owned-custom-scales",
    "who changes the replicas of a custom object through its scale owns them (rule `scale-owner`)",
    since="1.27",
)
STATUS_ALONE: Final = _change(
    "status-alone",
    "a write to the status of a custom object is validated without the rest, and texts name fields below the status",
    since="1.28",
)
STATUS_PATHS: Final = _change(
    "status-paths",
    "the fields of errors about the status of a custom object begin with `status`",
    since="1.31",
)
STATUS_LISTS: Final = _change(
    "status-lists",
    "a write to the status of a custom object may not repeat items of lists of type set and map",
    since="1.26",
)
FINALIZER_WARNINGS: Final = _change(
    "finalizer-warnings",
    "a custom object that gets a finalizer without a domain is stored with a warning",
    since="1.29",
)
EXPLAINED_STORED_VERSIONS: Final = _change(
    "explained-stored-versions",
    "a definition that drops a version in which objects may be stored is refused with what to do",
    since="1.33",
)
BARE_REQUIRED_SCHEMAS: Final = _change(
    "bare-required-schemas", "a version without a schema is refused without further text", since="1.34"
)
TRIMMED_MESSAGES: Final = _change(
    "trimmed-messages",
    "the message of a CEL rule of a custom kind is shown without space around it",
    since="1.27",
)
RULE_VALUES: Final = _change(
    "rule-values",
    "an error of a CEL rule of a custom kind shows the value if it is a scalar, and none otherwise",
    since="1.35",
)

RULE_MESSAGES: Final = _change(
    "rule-messages", "errors in a CEL rule of a custom kind show its messageExpression", since="1.27"
)
RULE_REASONS: Final = _change(
    "rule-reasons", "errors in a CEL rule of a custom kind show its reason and fieldPath", since="1.28"
)
RULE_OLD_SELF: Final = _change(
    "rule-old-self", "errors in a CEL rule of a custom kind show its optionalOldSelf", since="1.29"
)
CEL_OPTIONALS: Final = _library("cel-optionals", "optional values: `a.?b`, `optional.of(1)`", since="1.28")
CEL_MIXED_NUMBERS: Final = _library(
    "cel-mixed-numbers", "comparisons of numbers of different types: `1 < 1.5`", since="1.28"
)
CEL_AUTHORIZER: Final = _library(
    "cel-authorizer", "the functions of `authorizer` where it is declared", since="1.27", new="1.27"
)
CEL_AUTHORIZER_ERRORS: Final = _library(
    "cel-authorizer-errors", "errors of decisions: `errored()`, `error()`", since="1.28", new="1.28"
)
CEL_SELECTORS: Final = _library(
    "cel-selectors", "selectors in checks of `authorizer`: `fieldSelector()`, `labelSelector()`", since="1.31"
)
CEL_QUANTITIES: Final = _library("cel-quantities", "quantities: `quantity('1Gi')`", since="1.28")
CEL_SETS: Final = _library("cel-sets", "sets: `sets.contains([1, 2], [1])`", since="1.29")
CEL_ADDRESSES: Final = _library(
    "cel-addresses", "IP addresses and networks: `ip('::1')`, `cidr('10.0.0.0/8')`", since="1.30"
)
CEL_FORMATS: Final = _library(
    "cel-formats", "named formats: `format.dns1123Label().validate('a')`", since="1.31"
)
CEL_SEMVER: Final = _library("cel-semver", "semantic versions: `semver('1.2.3')`", since="1.33")
CEL_STRINGS: Final = _library(
    "cel-strings", "`'%s'.format([a])` and `strings.quote(a)`, and `join` with any list", since="1.29"
)
CEL_VALIDATED_LITERALS: Final = _library(
    "cel-validated-literals",
    "only valid literals as arguments of `duration`, `timestamp` and `matches`",
    since="1.29",
)
CEL_KEYWORDS: Final = _library(
    "cel-keywords",
    "keywords as names of fields: `self.namespace`, not only `self.__namespace__`",
    since="1.31",
)
CEL_TWO_VARIABLES: Final = _library(
    "cel-two-variables",
    "macros with two variables: `a.all(i, x, x > i)`, `a.transformMap(k, v, v + 1)`",
    since="1.32",
)
CEL_ENDS_OF_LISTS: Final = _library(
    "cel-ends-of-lists", "`first()`, `last()` and `unwrapOpt()` of lists", since="1.33", new="1.33"
)
CEL_LISTS: Final = _library(
    "cel-lists",
    "`sort()`, `sortBy()`, `distinct()`, `flatten()`, `reverse()` and `slice()` of lists, and `lists.range(a)`",
    since="1.34",
)
CEL_LIBRARIES: Final = frozenset(_libraries)
LABEL_KEY_TEXTS: Final = _change(
    "label-key-texts", "counts the bytes of labels, and speaks of label keys", since="1.35"
)
CEL_BINDINGS: Final = "cel-bindings"  # cel.bind, in selectors of devices
CEL_JSON_PATCH: Final = "cel-json-patch"  # jsonpatch.escapeKey, in mutating admission policies
PLAIN_RESOLUTION_TEXTS: Final = _change(
    "plain-resolution-texts",
    "does not call unknown messages of CEL expressions internal errors",
    since="1.29",
)
CEL_QUANTITY_COSTS: Final = _change(
    "cel-quantity-costs",
    "charges CEL expressions for the size of quantities that they parse, and estimates that cost",
    since="1.30",
)
CEL_EQUALITY_COSTS: Final = _change(
    "cel-equality-costs",
    "charges CEL expressions 1 for `==` of quantities, addresses, formats and checks",
    since="1.32",
)
CEL_NETWORKS_IN_NETWORKS: Final = _change(
    "cel-networks-in-networks",
    "`containsCIDR` of CEL finds networks that do not begin where the other one does",
    since="1.32",
)
TYPES_IN_WORDS: Final = _change(
    "types-in-words", "error messages of CEL expressions name types by their names", since="1.28"
)
CEL_RESULT_SIZES: Final = _change(
    "cel-result-sizes",
    "estimates the cost of CEL expressions with the sizes of what library functions return",
    since="1.26",
)
CEL_COST_OF_HAS: Final = _change(
    "cel-cost-of-has",
    "the estimated cost of `has(a.b)` in CEL expressions includes that of `a`",
    since="1.28",
)
CEL_HAS_COSTS: Final = _change(
    "cel-has-costs", "estimates that `has` in CEL expressions costs 1", since="1.28", until="1.28"
)
CEL_LOOP_SIZES: Final = _change(
    "cel-loop-sizes",
    "estimates the cost of CEL expressions with the sizes of lists that macros return",
    since="1.30",
)
CEL_URL_SIZES: Final = _change(
    "cel-url-sizes", "estimates the cost of CEL expressions with the sizes of URLs", since="1.32"
)
CEL_ENTRY_SIZES: Final = _change(
    "cel-entry-sizes",
    "estimates the cost of CEL expressions with the sizes of variables and of what lists and maps hold",
    since="1.33",
)
CEL_LENIENT_INDEXES: Final = _change(
    "cel-lenient-indexes",
    "`indexOf` and `lastIndexOf` of CEL expressions find nothing after the end of a text",
    since="1.32",
)
CEL_CHECKED_VARIABLES: Final = _change(
    "cel-checked-variables", "the variables of CEL macros may not be named `__result__`", since="1.33"
)
CEL_MIXED_LITERALS: Final = _change(
    "cel-mixed-literals",
    "infers `dyn` for items of different types in literals of CEL expressions, before it refuses them",
    since="1.29",
)
CEL_FAILING_MEMBERS: Final = _change(
    "cel-failing-members",
    "reports an error on the left of `in` with a list of constants, instead of false",
    since="1.28",
)
CEL_LENIENT_HAS: Final = _change(
    "cel-lenient-has",
    "finds no field in a null or scalar with `has()` of CEL, and words missing items of lists in another way",
    since="1.28",
)
CEL_GLOBAL_MATCHES: Final = _change(
    "cel-global-matches", "CEL expressions may call `matches(a, b)`, as `a.matches(b)`", since="1.29"
)
CEL_CHECKED_CONVERSIONS: Final = _change(
    "cel-checked-conversions",
    "CEL's conversions refuse values of types that they do not declare",
    since="1.29",
)
POLICY_VARIABLE_TYPES: Final = _change(
    "policy-variable-types", "infers the types of the variables of admission policies", since="1.29"
)
CEL_NAMED_GROUPS: Final = _change(
    "cel-named-groups",
    "regular expressions of CEL, and patterns of custom kinds, may have named groups without P: `(?<n>a)`",
    since="1.29",
)
CEL_FORMAT_CALLS: Final = _change(
    "cel-format-calls", "checks the constant arguments of `format` in CEL expressions", since="1.31"
)
CEL_OPTIONAL_TYPE: Final = _change(
    "cel-optional-type", "error messages of CEL expressions say `optional_type(int)`", since="1.31"
)
CEL_CODE_POINTS: Final = _change(
    "cel-code-points", "refuses surrogates in literals of CEL expressions", since="1.33"
)
CEL_BEHAVIOUR: Final = frozenset(
    (
        CEL_NAMED_GROUPS,
        CEL_FORMAT_CALLS,
        CEL_OPTIONAL_TYPE,
        CEL_CODE_POINTS,
        CEL_CHECKED_CONVERSIONS,
        CEL_LENIENT_HAS,
        CEL_GLOBAL_MATCHES,
        CEL_FAILING_MEMBERS,
        CEL_MIXED_LITERALS,
        CEL_CHECKED_VARIABLES,
        CEL_LENIENT_INDEXES,
        TYPES_IN_WORDS,
        CEL_RESULT_SIZES,
        CEL_COST_OF_HAS,
        CEL_HAS_COSTS,
        CEL_LOOP_SIZES,
        CEL_URL_SIZES,
        CEL_ENTRY_SIZES,
        PLAIN_RESOLUTION_TEXTS,
        CEL_QUANTITY_COSTS,
        CEL_EQUALITY_COSTS,
        CEL_NETWORKS_IN_NETWORKS,
        LABEL_KEY_TEXTS,
    )
)

PER_INDEX_LIMITS: Final = _gate("JobBackoffLimitPerIndex")
POD_REPLACEMENT: Final = _gate("JobPodReplacementPolicy")
MANAGED_BY: Final = _gate("JobManagedBy")
JOB_SUCCESS: Final = _gate("JobSuccessPolicy")
SUSPENDED_RESOURCES: Final = _gate("MutablePodResourcesForSuspendedJobs")
SUSPENDED_SCHEDULING: Final = _gate("MutableSchedulingDirectivesForSuspendedJobs")
PREFIXED_JOB_LABELS: Final = _change(
    "prefixed-job-labels", "labels the pods of jobs with the prefix of the group batch too", since="1.27"
)
ELASTIC_JOBS: Final = _change(
    "elastic-jobs", "lets the completions of indexed jobs change with their parallelism", since="1.27"
)
NO_JOB_TRACKING: Final = _change(
    "no-job-tracking", "does not annotate jobs that are tracked with finalizers", since="1.28"
)
SCHEDULED_ANNOTATION: Final = _gate("CronJobsScheduledAnnotation")
ENDS_BY_CONDITION: Final = _change(
    "ends-by-condition",
    "names the condition, not the status, in Events about ended jobs of a CronJob",
    since="1.31",
)
AMBIGUOUS_SELECTORS: Final = _change(
    "ambiguous-selectors", "does not scale pods that several autoscalers control, and says so", since="1.26"
)
SHORTENED_SETS: Final = _change(
    "shortened-sets",
    "shortens the name of a deployment in those of its ReplicaSets, so that long ones are possible",
    since="1.34",
)
SCALED_TO_ZERO: Final = _change(
    "scaled-to-zero",
    "an autoscaler scales up from zero replicas only if it scaled down to zero, which a condition says",
    since="1.36",
)
RESCALE_RETRIED: Final = _change(
    "rescale-retried",
    "an autoscaler tries again if the scale of its target has changed meanwhile",
    since="1.34",
)
COUNTED_ERRORS: Final = _change(
    "counted-errors",
    "the backoff of a pod grows by how often plugins rejected it, or by its latest errors, not by all attempts",
    since="1.34",
)
SORTED_VICTIMS: Final = _change(
    "sorted-victims",
    "of the victims on a node the most important one counts first, also where budgets protect some",
    since="1.29",
)
PREEMPTED_ONLY: Final = _change(
    "preempted-only",
    "a pod waits for terminating pods of its nominated node only if these were preempted; it preempts others otherwise",
    since="1.27",
)
METRICS_OF_FAILURES: Final = _change(
    "metrics-of-failures",
    "writes the metrics of an autoscaler also when it cannot compute a number of replicas",
    since="1.29",
)
CONTROLLED_CLAIMS: Final = _change(
    "controlled-claims",
    "makes a StatefulSet, or a pod of it, the controller of claims that go with it",
    since="1.28",
)
QUIET_REPLACEMENT: Final = _change(
    "quiet-replacement",
    "records no Event when a StatefulSet replaces a failed pod, and creates it in its next pass",
    since="1.28",
)
TERMINATED_REPLACEMENT: Final = _change(
    "terminated-replacement", "replaces pods of a StatefulSet that succeeded, too", since="1.27"
)
MISSING_CLAIMS: Final = _change(
    "missing-claims", "creates missing claims of pods of a StatefulSet while these are pending", since="1.27"
)
AVAILABLE_FIRST: Final = _change(
    "available-first",
    "an update of a StatefulSet, and its scale down, wait for pods that are ready, but not available yet",
    since="1.34",
)
WHOLE_UPDATES: Final = _change(
    "whole-updates", "completes an update of a StatefulSet only with all desired replicas", since="1.27"
)
CAPITAL_VERBS: Final = _change(
    "capital-verbs",
    "begins the Events about pods and claims of StatefulSets with a capital letter",
    since="1.35",
)
MANAGED_ENDPOINTS: Final = _change(
    "managed-endpoints", "labels Endpoints with the name of the controller that writes them", since="1.33"
)
FIT_OF_CONTAINERS: Final = _change(
    "fit-of-containers",
    "leaves the requests of whole pods out of the scheduler's score for free resources (not out of its filter)",
    since="1.33",
)
NODES_WITH_UNAVAILABLE_PODS: Final = _change(
    "nodes-with-unavailable-pods",
    "counts unavailable old pods of a DaemonSet against maxUnavailable while it replaces them",
    since="1.31",
)
NODES_THAT_NEED_WORK: Final = _change(
    "nodes-that-need-work",
    "reconciles a DaemonSet after a change of a node only if a pod has to be created or deleted there, or some are "
    "where they should not be",
    since="1.33",
)
SCALED_FROM_TO: Final = _change(
    "scaled-from-to", "names the old size of a ReplicaSet before the new one in Events", since="1.32"
)
TERMINATING_REPLICAS: Final = _gate("DeploymentReplicaSetTerminatingReplicas")
TERMINATING_OF_DELETED: Final = _change(
    "terminating-of-deleted", "counts pods that a Job has just deleted as terminating", since="1.31"
)
EVICTED_PODS_FIRST: Final = _change(
    "evicted-pods-first", "deletes evicted pods first if too many pods have finished", since="1.27"
)
LASTING_ANNOUNCEMENTS: Final = _change(
    "lasting-announcements",
    "lets pods that have finished, or that a kubelet ends, keep the condition DisruptionTarget",
    since="1.26",
)
UNMANAGED_PODS: Final = _change(
    "unmanaged-pods",
    "records an Event if a disruption budget selects pods without a controller",
    since="1.27",
)
FAILED_BUDGETS_EXPLAINED: Final = _change(
    "failed-budgets-explained",
    "the text of a refused eviction says why the budget allows none, if its condition does",
    since="1.35",
)
CONTAINERS_WITHOUT_REQUESTS: Final = _change(
    "containers-without-requests",
    "names container and pod in the error of an autoscaler about a missing request",
    since="1.26",
)
SIDECARS_IN_UTILIZATION: Final = _change(
    "sidecars-in-utilization", "counts the requests of sidecars in the utilization of pods", since="1.29"
)
POD_LEVEL_UTILIZATION: Final = _change(
    "pod-level-utilization",
    "measures the utilization of pods by their own requests if they have such",
    since="1.34",
)
CONTAINERS_NOT_FOUND: Final = _change(
    "containers-not-found", "an autoscaler cannot measure a container that a pod does not have", since="1.35"
)
NO_EXTERNAL_SLICES: Final = _change(
    "no-external-slices", "makes no endpoints of Services that are external names", since="1.27"
)
PORTS_BY_FNV: Final = _change(
    "ports-by-fnv", "orders the ports and subsets of endpoints by their FNV hash, not MD5", since="1.35"
)
FAIL_INDEX: Final = _change("fail-index", "knows the action FailIndex of failure policies", since="1.28")
MANUAL_SELECTOR_DEFAULT: Final = _change(
    "manual-selector-default", "sets manualSelector of jobs that lack it to false", since="1.29"
)
NO_ZONE_IN_SCHEDULES: Final = _change("no-zone-in-schedules", "refuses time zones in schedules", since="1.29")
NAMES_FOR_HOSTS: Final = _change(
    "names-for-hosts", "warns about names of pods and jobs that are no DNS labels", since="1.27"
)
SUCCESS_CRITERIA: Final = _change(
    "success-criteria", "validates the condition SuccessCriteriaMet of jobs", since="1.30"
)
ONLY_FAILED_PODS: Final = _change(
    "only-failed-pods",
    "replaces deleted pods of a job with a failure policy only when they have failed",
    since="1.26",
)
FAILURES_BY_POD: Final = _change(
    "failures-by-pod",
    "replaces the failed pods of a job after a pause that counts from their end, the first one too",
    since="1.28",
)
INDEX_LABELS: Final = _gate("PodIndexLabel")
WIDE_SUCCESS_CRITERIA: Final = _change(
    "wide-success-criteria", "allows the condition SuccessCriteriaMet of all jobs", since="1.31"
)
START_ORDINALS: Final = _change(
    "start-ordinals", "lets the ordinals of a stateful set change, as its texts say", since="1.26"
)
STATEFUL_SETS_ARE_HOSTS: Final = _change(
    "stateful-sets-are-hosts", "has DNS labels as names of stateful sets", since="1.27"
)
SHARED_DISKS: Final = _change("shared-disks", "allows disks that several replicas can write to", since="1.31")
MUTABLE_HISTORY: Final = _change(
    "mutable-history",
    "lets the history limit of a stateful set change, and checks the name of its service",
    since="1.33",
)
CHECKED_STATEFUL_TEMPLATES: Final = _change(
    "checked-stateful-templates", "validates the pod templates of stateful sets", since="1.34"
)
VALIDATED_ONCE: Final = _change("validated-once", "validates updates in the group apps once", since="1.34")
REVISIONS_ARE_OBJECTS: Final = _change(
    "revisions-are-objects", "has only JSON objects as data of controller revisions", since="1.31"
)
HIDDEN_IN_WARNINGS: Final = _change(
    "hidden-in-warnings", "warns about hidden variables, overlapping ports and absent selectors", since="1.28"
)
PATHS_OVERLAP: Final = _change("paths-overlap", "warns about paths in volumes that overlap", since="1.32")
OWN_PATHS: Final = _change(
    "own-paths",
    "does not warn that a projected source without paths overlaps with the one before it",
    since="1.34",
)
NO_GIT_REPOSITORIES: Final = _change(
    "no-git-repositories", "disables gitRepo volumes, and warns about repeated names of ports", since="1.33"
)
BARE_OWNER_TEXTS: Final = _change(
    "bare-owner-texts", "does not repeat the field of an owner reference in the text about it", since="1.34"
)
KINDS_OF_OWNERS: Final = _change(
    "kinds-of-owners", "names the kinds of two controllers of one object", since="1.26"
)
HANDLER_REQUIRED: Final = _change(
    "handler-required", "says of an empty handler of a runtime class that it is required", since="1.36"
)
NETWORKING_IN_TEXTS: Final = _change(
    "networking-in-texts",
    "errors about ingresses and network policies name their group, no longer the one they were moved from",
    since="1.26",
)
FORMATS_WARNED_OF: Final = _change(
    "formats-warned-of", "warns of formats in the schemas of custom kinds that nobody checks", since="1.34"
)
OWNED_DUPLICATES: Final = _change(
    "owned-duplicates",
    "records who owns what in objects that have equal items in a list of type set or map",
    since="1.29",
)
ORDER_APPLIED: Final = _change(
    "order-applied", "changes objects when only the order of entries in an applied list differs", since="1.29"
)
STATUS_OWNS_STATUS: Final = _change(
    "status-owns-status",
    "lets no manager own metadata that it sends with the status of a custom resource",
    since="1.36",
)
# By the minor version of the Pod Security Standards.
POD_SECURITY_VERSIONS: Final = {
    number: _change(
        f"pod-security-v1.{number}", f"knows the Pod Security Standards of v1.{number}", since=f"1.{number}"
    )
    for number in range(26, 37)
}
SE_LINUX_WORDS: Final = _change(
    "se-linux-words", "names forbidden users and roles of SELinux without a forbidden type too", since="1.26"
)
IMAGES_ARE_HARMLESS: Final = _change(
    "images-are-harmless", "counts images among the volumes of the level restricted", since="1.33"
)
BALANCER_MODES: Final = _gate("LoadBalancerIPMode")
SAME_ZONE_OR_NODE: Final = _gate("PreferSameTrafficDistribution")
BALANCERS_HAVE_INGRESS: Final = _change(
    "balancers-have-ingress",
    "allows the status of a load balancer in services of that type only",
    since="1.29",
)
LIMIT_IN_TEXTS: Final = _change("limit-in-texts", "names the limit that a request exceeds", since="1.27")
SELECTOR_VALUES: Final = _change(
    "selector-values", "refuses label values in selectors that no label can have", since="1.26"
)
SPREAD_SELECTORS_CHECKED: Final = _change(
    "spread-selectors-checked", "validates the selectors of topology spread constraints", since="1.27"
)
NODE_SELECTOR_VALUES: Final = _change(
    "node-selector-values", "refuses values in required node affinity that no label can have", since="1.32"
)
SCHEDULING_WHILE_GATED: Final = _change(
    "scheduling-while-gated", "lets node selectors and node affinity of gated pods narrow", since="1.27"
)
SECCOMP_FIELDS_ALONE: Final = _change(
    "seccomp-fields-alone", "does not copy seccomp annotations into fields", since="1.27"
)
QOS_KEPT: Final = _change(
    "qos-kept", "refuses updates of pods that change their QoS class", since="1.27", until="1.31"
)
QOS_KEPT_IN_STATUS: Final = _change("qos-kept-in-status", "keeps the QoS class in the status", since="1.32")
RESIZE_BY_UPDATE: Final = _change(
    "resize-by-update", "resizes pods by updates instead of a subresource", since="1.27", until="1.31"
)
SIDECARS_EXIST: Final = _change(
    "sidecars-exist", "says that init containers may have probes if they always restart", since="1.28"
)
ANY_VOLUME_IN_NAMESPACES: Final = _change(
    "any-volume-in-namespaces", "allows all types of volumes in user namespaces", since="1.28"
)
RESTART_POLICIES_DROPPED: Final = _change(
    "restart-policies-dropped", "drops restart policies of containers while their gate is off", since="1.34"
)
ZERO_SLEEP_IN_TEXTS: Final = _change(
    "zero-sleep-in-texts", "says which gate allows to sleep for no time", since="1.32"
)
HOST_PORTS_OF_PODS: Final = _change(
    "host-ports-of-pods", "sets host ports in pods, no longer in templates", since="1.28"
)
STRICT_HOST_SYSCTLS: Final = _change(
    "strict-host-sysctls", "refuses sysctls of a namespace that the pod shares with its host", since="1.29"
)
ADDRESSES_CHECKED_ALIKE: Final = _change(
    "addresses-checked-alike", "has one text for all invalid addresses", since="1.30"
)
ADDRESSES_AND_NETWORKS: Final = _change(
    "addresses-and-networks",
    "warns of addresses and networks in odd forms, and lets objects keep invalid ones that they have",
    since="1.33",
)
ODD_ADDRESSES_INVALID: Final = _change(
    "odd-addresses-invalid", "calls such addresses and networks invalid in warnings", since="1.36"
)
# Cluster IPs come from ServiceCIDRs, and each has an IPAddress.
SERVICE_CIDRS: Final = _gate("MultiCIDRServiceAllocator", since="1.29")
STRICT_ADDRESSES: Final = _gate("StrictIPCIDRValidation")  # no leading zeros, no IPv4 in IPv6
NETWORK_EXAMPLES: Final = _change(
    "network-examples", "gives examples in the text about an invalid network", since="1.30"
)
EXTERNALLY_ACCESSIBLE: Final = _change(
    "externally-accessible", "has an externalTrafficPolicy in services with external IPs too", since="1.29"
)
TOPOLOGY_MODE: Final = _change(
    "topology-mode", "calls the annotation of topology-aware hints deprecated", since="1.27"
)
KUBELET_PORT_EXPOSED: Final = _change(
    "kubelet-port-exposed", "lets load balancers have the port of kubelets", since="1.33"
)
IGNORED_IN_SERVICES: Final = _change(
    "ignored-in-services", "warns of fields that services of a type ignore", since="1.28"
)
IGNORED_IN_HEADLESS: Final = _change(
    "ignored-in-headless-services", "warns of fields that headless services ignore", since="1.34"
)
PREFER_CLOSE_DEPRECATED: Final = _change(
    "prefer-close-deprecated", "warns of the traffic distribution PreferClose", since="1.35"
)
EXTERNAL_IPS_DEPRECATED: Final = _change(
    "external-ips-deprecated", "warns of external IPs of services", since="1.36"
)
SERVICE_METADATA_ONCE: Final = _change(
    "service-metadata-once", "validates the metadata of a service in updates once", since="1.34"
)
SERVICE_IN_TEXTS: Final = _change("service-in-texts", "names the service that gets no address", since="1.36")
SERVICE_SELECTORS: Final = _change(
    "service-selectors", "selects services by spec.clusterIP and spec.type", since="1.31"
)
SLICES_CHECKED: Final = _change(
    "slices-checked",
    "checks ports of endpoint slices first, and endpoints only if an update changes them",
    since="1.33",
)
FQDN_DEPRECATED: Final = _change(
    "fqdn-deprecated",
    "warns of endpoint slices of type FQDN and of the annotation of ingress classes, which may equal the field",
    since="1.27",
)
POLICIES_CHECKED_ONCE: Final = _change(
    "policies-checked-once", "validates network policies in updates once", since="1.36"
)
BARE_REFERENCES_REQUIRED: Final = _change(
    "bare-references-required",
    "says no more than that kind and name of the parameters of an ingress class are required",
    since="1.34",
)
UNMASKED_NEEDS_NAMESPACE: Final = _change(
    "unmasked-needs-namespace", "allows unmasked proc mounts only in user namespaces", since="1.30"
)
CLAIMS_INLINE: Final = _change(
    "claims-inline", "has the source of a pod's resource claim in the claim itself", since="1.31"
)
CLAIMS_OF_STATIC_PODS: Final = _change(
    "claims-of-static-pods", "refuses resource claims of static pods", since="1.32"
)
POD_GENERATIONS: Final = _change("pod-generations", "counts the generations of pods", since="1.33")
GATED_SINCE: Final = _change(
    "gated-since", "says since when a pod is not scheduled because of its gates", since="1.31"
)
OWNERS_OF_PARTS: Final = _change(
    "owners-of-parts-of-pods", "tracks who changed ephemeral containers and resized pods", since="1.33"
)
RESIZE_TEXTS: Final = _change(
    "resize-texts", "says which gate lets the resources of a whole pod be resized", since="1.35"
)
POD_LEVEL_HUGE_PAGES: Final = _change(
    "pod-level-huge-pages", "allows huge pages in the resources of a whole pod", since="1.33"
)
HOST_USERS_IN_TEXTS: Final = _change(
    "host-users-in-texts", "names the field hostUsers, and refuses volume devices with it", since="1.34"
)
RESTART_FOR_SIDECARS: Final = _change(
    "restart-for-sidecars", "refuses resizes that restart init containers other than sidecars", since="1.36"
)
TOLERATION_VALUE_IN_TEXTS: Final = _change(
    "toleration-value-in-texts", "prints the value of a toleration that must have none", since="1.32"
)
DOTS_IN_TEXTS: Final = _change(
    "dots-in-texts", "says of a label with dots that it must not contain dots", since="1.27"
)
BYTES_COUNTED_IN_TEXTS: Final = _change(
    "bytes-counted-in-texts", "says of a long value that it may not be more than so many bytes", since="1.32"
)
BARE_RESOURCE_NAMES: Final = _change(
    "bare-resource-names", "prints invalid names of resources without quotes", since="1.29", until="1.33"
)
BARE_NAMES_IN_PODS: Final = _change(
    "bare-resource-names-in-pods",
    "prints names of resources that cannot be resized without quotes",
    since="1.27",
    until="1.33",
)
HOST_SPECIFIED: Final = _change(
    "host-specified", "says of the URL of a webhook without a host that it must be specified", since="1.26"
)
SERVICE_REQUIRED: Final = _change(
    "service-required",
    "says of the service of a webhook no more than that its name is required",
    since="1.34",
)
JSON_IN_TEXTS: Final = _change("json-in-texts", "prints invalid values as JSON", since="1.34")

EMULATION: Final = _change(
    "emulation",
    "says at /version which version it emulates, and from which one on it is compatible",
    since="1.33",
)
FEATURE_METRIC: Final = _change(
    "feature-metric", "has kubernetes_feature_enabled in /metrics, with every feature gate", since="1.26"
)

DYNAMIC_ALLOCATION: Final = _gate("DynamicResourceAllocation")
ADMIN_ACCESS: Final = _gate("DRAAdminAccess")
PRIORITIZED_LISTS: Final = _gate("DRAPrioritizedList")
STRUCTURED_DEVICES: Final = _change(
    "structured-devices",
    "allocates devices that ResourceSlices describe, where DynamicResourceAllocation is on",
    since="1.32",
)
DEVICE_TAINTS: Final = _gate("DRADeviceTaints")
DEVICE_TAINT_RULES: Final = _gate("DRADeviceTaintRules")
POOL_STATUS: Final = _gate("DRAResourcePoolStatus")
CONSUMABLE_CAPACITY: Final = _gate("DRAConsumableCapacity")  # devices that several claims share
LIST_ATTRIBUTES: Final = _gate("DRAListTypeAttributes")
SCORED_LISTS: Final = _change(
    "scored-lists", "prefers nodes that provide the first alternatives of prioritized lists", since="1.35"
)
BINDING_CONDITIONS: Final = _gate("DRADeviceBindingConditions")
EXTENDED_DEVICES: Final = _gate("DRAExtendedResource")
PARTITIONABLE_DEVICES: Final = _gate("DRAPartitionableDevices")
DEVICE_STATUS: Final = _gate("DRAResourceClaimDeviceStatus")
STATUS_PARTS: Final = _gate(
    "DRAResourceClaimGranularStatusAuthorization"
)  # rights of parts of a claim's status

GROUP_PREEMPTION: Final = _gate("WorkloadAwarePreemption")
GENERIC_WORKLOAD: Final = _gate("GenericWorkload")
GANG_SCHEDULING: Final = _gate("GangScheduling")
POD_GROUPS: Final = _change(
    "pod-groups",
    "where pods have groups, these are PodGroups with a condition; before, a Workload has them inside",
    since="1.36",
)

ADMIN_LABEL: Final = _change(
    "admin-label", "wants a label on namespaces whose claims ask for admin access to devices", since="1.33"
)
ADMIN_LABEL_KEY: Final = _change("admin-label-key", "has that label in the domain of labels", since="1.34")

DEVICE_KEYS: Final = _change(
    "device-keys",
    "names the key in the field of an error about a key of a device",
    since="1.32",
    until="1.35",
)
DEVICE_SHARES: Final = _change(
    "device-shares", "knows shares of devices, also in texts about their status", since="1.34"
)
DEVICE_RULES: Final = _change(
    "device-rules",
    "stops at the first error of long lists of devices, does not repeat the validation of immutable claims, says "
    "otherwise what is wrong with names, attributes and counters of devices, warns about names of drivers, and lets "
    "no manager own metadata that it sends with the status of a claim",
    since="1.35",
)

STORAGE_MIGRATIONS: Final = _change(
    "storage-migrations", "runs storage version migrations, if their kind is served", since="1.36"
)
HONOURED_POLICY: Final = _gate("HonorPVReclaimPolicy")
PHASE_TIMES: Final = _gate("PersistentVolumeLastPhaseTransitionTime")
MUTABLE_LIMITS: Final = _gate(
    "MutableCSINodeAllocatableCount"
)  # of the volumes that a driver takes on a node
TOKENS_IN_SECRETS: Final = _gate("CSIServiceAccountTokenSecrets")
VOLUME_LIMITS: Final = _gate("VolumeLimitScaling")
FOREIGN_SOURCES: Final = _gate("CrossNamespaceVolumeDataSource")  # claims copy data of other namespaces
MUTABLE_AFFINITY: Final = _gate("MutablePVNodeAffinity")
CAPACITIES_VALIDATED_ONCE: Final = _change(
    "capacities-validated-once", "reports errors of new CSIStorageCapacities once", since="1.28"
)
MUTABLE_DRIVERS: Final = _change(
    "mutable-drivers",
    "lets fsGroupPolicy and podInfoOnMount of CSI drivers change, and counts every change of their spec",
    since="1.30",
)
DRIVERS_OF_NODES: Final = _change(
    "drivers-of-nodes", "names the list of drivers in errors about immutable drivers of nodes", since="1.33"
)
CLASSES_VALIDATED_TWICE: Final = _change(
    "classes-validated-twice",
    "reports errors of changed VolumeAttributesClasses twice",
    since="1.30",
    until="1.34",
)
STORAGE_VALIDATED_ONCE: Final = _change(
    "storage-validated-once",
    "reports errors of changed claims, attachments and VolumeAttributesClasses once, and of an absent name of a CSI "
    "driver only that it is required",
    since="1.35",
)
ATTACHERS_ARE_DRIVERS: Final = _change(
    "attachers-are-drivers",
    "validates attachers as names of CSI drivers in updates too, and reports errors of changed CSI nodes once",
    since="1.36",
)
CLASSES_PROTECTED: Final = _change(
    "classes-protected", "keeps VolumeAttributesClasses that claims or volumes name", since="1.33"
)
NEWEST_DEFAULT_CLASS: Final = _change(
    "newest-default-class", "gives claims the newest of several default storage classes", since="1.26"
)
CLAIM_WARNINGS: Final = _change("claim-warnings", "warns about fractional sizes of claims", since="1.26")
VOLUME_WARNINGS: Final = _change(
    "volume-warnings",
    "warns about sources of volumes that no longer work, and about annotations that name storage classes",
    since="1.28",
)
RECYCLE_WARNING: Final = _change("recycle-warning", "warns about the reclaim policy Recycle", since="1.30")
MOUNT_OPTIONS_WARNING: Final = _change(
    "mount-options-warning", "warns about the annotation for mount options", since="1.31"
)
SOURCES_OF_CLAIMS: Final = _change(
    "sources-of-claims",
    "says which kind a data source without a group must have, and what metadata of claim templates may not be set",
    since="1.26",
)
GROUPS_OF_SOURCES: Final = _change(
    "groups-of-sources",
    "checks the group of the data source of a claim, and says that bound claims may change their class of attributes",
    since="1.29",
)
RELABELLED_AFFINITY: Final = _change(
    "relabelled-affinity",
    "lets deprecated labels in the node affinity of volumes be replaced, and allows subdomains as names of secrets",
    since="1.27",
)
AFFINITY_VALUES: Final = _change(
    "affinity-values", "refuses values in the node affinity of volumes that no label can have", since="1.33"
)
RESOURCE_STATUSES: Final = _change(
    "resource-statuses", "has states of resizing by resource in the status of claims", since="1.28"
)
NAMED_RESOURCE_STATUSES: Final = _change(
    "named-resource-statuses", "errors about these states name the field as it is", since="1.34"
)
INFEASIBLE_RESIZES: Final = _change(
    "infeasible-resizes", "calls resizes of volumes infeasible that it called failed", since="1.31"
)
LOCAL_TOKEN_PATHS: Final = _change(
    "local-token-paths", "refuses paths of projected tokens that lead out of their volume", since="1.30"
)
ONE_TYPE_PER_SOURCE: Final = _change(
    "one-type-per-source",
    "says that each source of a projected volume has one type, and names the field of trust bundles as it is",
    since="1.31",
)
CLASS_OF_BOUND_CLAIMS: Final = _change(
    "class-of-bound-claims", "lets only bound claims change their VolumeAttributesClass", since="1.31"
)
CLASS_REMOVABLE: Final = _change(
    "class-removable",
    "lets a claim drop a VolumeAttributesClass that was never applied to its volume",
    since="1.34",
)
DROPPED_CLASSES: Final = _change(
    "dropped-classes",
    "drops the VolumeAttributesClass of volumes while its gate is off, as is done with claims",
    since="1.31",
)

MUTATING_POLICIES: Final = _gate("MutatingAdmissionPolicy")
MUTATION_METRICS: Final = _change("mutation-metrics", "counts mutations of policies", since="1.34")
VALIDATING_POLICIES: Final = _gate("ValidatingAdmissionPolicy")
STRICT_POLICY_COSTS: Final = _gate("StrictCostEnforcementForVAP")
STRICT_CONDITION_COSTS: Final = _gate("StrictCostEnforcementForWebhooks")
VALIDATION_ACTIONS: Final = _change(
    "validation-actions",
    "lets bindings of validating policies choose what follows a failed validation",
    since="1.27",
)
MATCHED_KIND_IN_REQUESTS: Final = _change(
    "matched-kind-in-requests",
    "shows expressions of policies the kind and resource that matched as kind and resource of the request",
    since="1.28",
)
POLICIES_SKIP_REVIEWS: Final = _change(
    "policies-skip-reviews", "lets no policy match access and token reviews", since="1.30"
)
PARAM_SELECTORS: Final = _change(
    "param-selectors",
    "finds the parameters of policies by labels too, and without a namespace in that of the request",
    since="1.28",
)
UNBOUND_POLICIES_IGNORED: Final = _change(
    "unbound-policies-ignored",
    "ignores policies without a binding, even if the kind of their parameters does not exist, and no longer counts "
    "policies",
    since="1.30",
)
CONDITIONS_BY_OPERATION: Final = _change(
    "conditions-by-operation", "counts match conditions by kind and operation", since="1.28"
)
ERROR_TYPE_IN_POLICY_METRICS: Final = _change(
    "error-type-in-policy-metrics", "counts checks of validating policies by type of error", since="1.31"
)
REFUSAL_OF_ALL_NODES: Final = _change(
    "refusal-of-all-nodes",
    "says once why no node is feasible, if that does not depend on the node",
    since="1.26",
)
PREEMPTING_SCHEDULER: Final = _change(
    "preempting-scheduler", "names the scheduler in the condition of a preempted pod", since="1.26"
)
REASON_OF_SCHEDULER: Final = _change(
    "reason-of-scheduler", "gives preempted pods the reason PreemptionByScheduler", since="1.27"
)
MILLI_OVERHEAD: Final = _change(
    "milli-overhead", "scores nodes with the overhead of pods in thousandths of a CPU", since="1.27"
)
EMPTY_SPREAD: Final = _change(
    "empty-spread", "counts no pods for a spread constraint whose selector is empty", since="1.27"
)
MISSING_NODES_IGNORED: Final = _change(
    "missing-nodes-ignored",
    "ignores nodes that the affinity of a pod names and that do not exist, and preempts no pods of nodes that it does "
    "not name",
    since="1.27",
)
UNNAMED_NODES_COUNTED: Final = _change(
    "unnamed-nodes-counted", "counts the nodes that the affinity of a pod does not name", since="1.32"
)
FIT_OF_REQUESTED: Final = _change(
    "fit-of-requested", "checks a resource of a node only for pods that request it", since="1.28"
)
PREEMPTING_POD: Final = _change("preempting-pod", "names the pod in the Event of a preemption", since="1.29")
AFFINITY_OF_VOLUMES: Final = _change(
    "affinity-of-volumes",
    "says of nodes that cannot reach a volume that they do not match its node affinity",
    since="1.33",
)
PREEMPTING_POD_UNRELATED: Final = _change(
    "preempting-pod-unrelated",
    "no longer relates the Event of a preemption to the preempting pod",
    since="1.36",
)
NOMINATION_CHANGES: Final = _change(
    "nomination-changes",
    "tries pods again when one of at least their priority is no longer nominated to a node",
    since="1.33",
)
BALANCE_OF_REQUESTS: Final = _change(
    "balance-of-requests", "does not compare the balance of nodes for pods without requests", since="1.33"
)
REQUEST_OVER_NODE: Final = _change(
    "request-over-node", "preempts nobody where a request exceeds what the whole node offers", since="1.34"
)
TAINTS_UNNAMED: Final = _change(
    "taints-unnamed", "does not name taints in the reason why no node is feasible", since="1.34"
)
CLAIMS_BEFORE_PREEMPTION: Final = _change(
    "claims-before-preemption",
    "tries to release resource claims before it preempts pods, and says so",
    since="1.34",
)
IMPROVED_BALANCE: Final = _change(
    "improved-balance", "scores how much a pod improves the balance of a node", since="1.36"
)

# What kubelets of the versions do differently; simulated nodes follow them.
REJECTED_PODS: Final = _change(
    "rejected-pods",
    "a simulated node says of a pod that it does not admit that it was rejected, and marks the pods that it preempts",
    since="1.26",
)
REASONS_OF_PREDICATES: Final = _change(
    "reasons-of-predicates",
    "a simulated node says why a pod that it does not admit does not fit",
    since="1.31",
)
NAMED_BACK_OFF: Final = _change(
    "named-back-off", "an Event about a container that waits for its restart names it", since="1.26"
)
IMAGE_IN_PARSE_ERRORS: Final = _change(
    "image-in-parse-errors", "the error of an invalid image reference quotes it once", since="1.27"
)
UNPROCESSED_VOLUMES: Final = _change(
    "unprocessed-volumes",
    "an Event about volumes that cannot be mounted lists those that were not processed",
    since="1.27",
)
TERMINAL_WHEN_DELETED: Final = _change(
    "terminal-when-deleted",
    "a pod that was deleted has the phase Succeeded or Failed once its containers have ended",
    since="1.27",
)
CREATED_WITH_COLON: Final = _change(
    "created-with-colon", 'the Event of a created container is "Created container: NAME"', since="1.29"
)
IMAGE_SIZES: Final = _change("image-sizes", "the Event of a pulled image has its size", since="1.30")
PULL_ERRORS: Final = _change(
    "pull-errors", "a container that waits to pull its image again says why that failed", since="1.32"
)
RESIZE_CONDITIONS: Final = _change(
    "resize-conditions",
    "a pod whose resize is pending or in progress has a condition that says so",
    since="1.33",
)
RESIZE_EVENTS: Final = _change(
    "resize-events", "a simulated node records Events of resized pods", since="1.34"
)
CONTAINER_CREATED: Final = _change(
    "container-created",
    "Events of created and started containers do not name them, and those of images say who may use them",
    since="1.35",
)
WAITING_FOR_DETACH: Final = _change(
    "waiting-for-detach",
    'an Event about a volume that another node has says "Waiting for detach"',
    since="1.36",
)
READY_TO_START: Final = _gate("PodReadyToStartContainersCondition")
OBSERVED_GENERATION: Final = _gate("PodObservedGenerationTracking")
QUEUEING_HINTS: Final = _gate("SchedulerQueueingHints")
POP_FROM_BACKOFF: Final = _gate("SchedulerPopFromBackoffQ")
ASYNC_PREEMPTION: Final = _gate("SchedulerAsyncPreemption")

# Gates that only declarations name: what they enable is a field, a kind or a subresource.
_OF_DECLARATIONS: Final = """
    HPAConfigurableTolerance
    AdmissionWebhookMatchConditions
    APISelfSubjectReview CRDObservedGenerationTracking
    ClusterTrustBundleProjection CoordinatedLeaderElection DRANodeAllocatableResources
    HostnameOverride ImageVolumeWithDigest
    StatefulSetStartOrdinal
    PDBUnhealthyPodEvictionPolicy ServiceTrafficDistribution
    ResourceHealthStatus ResourceHealthStatusMessage SELinuxChangePolicy
    DRAControlPlaneController DRAWorkloadResourceClaims StorageVersionMigrator TopologyAwareWorkloadScheduling
"""
GATES: Final = frozenset((*_gates, *_OF_DECLARATIONS.split()))
# Gates whose fields are served and validated, while no controller, scheduler or node follows them.
FIELDS_ONLY: Final = frozenset(
    {
        "DRANodeAllocatableResources",
        "DRAWorkloadResourceClaims",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
    }
)
CHANGES: Final = tuple(_changes)
# Gates that work here in versions in which Kubernetes does not have them yet; they are off until asked for.
EARLY: Final = frozenset({WATCH_LIST})
ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"


class Release(msgspec.Struct, frozen=True):
    """A version of Kubernetes, and the names of the features that are on."""

    version: str = FIRST
    features: frozenset[str] = frozenset()

    @property
    def record(self) -> str:
        """The version as journals record it."""
        return record_of(self.version)

    @property
    def patch_release(self) -> str:
        """The patch release of Kubernetes whose behaviour the server has, such as v1.25.16."""
        return PATCH_RELEASES[self.version]


V1_25: Final = Release()  # without the features of gates


@cache
def choose_release(version: str, text: str = "") -> Release:
    """Return a version with its features, switched as `--feature-gates` says.

    Raises ValueError, which says which gate is wrong, and why.
    """
    gates = gates_of(version)
    given = _parse(text, version, gates)
    on = {name for name, gate in gates.items() if given.get(name, _default(gate, given))}
    on |= {name for name in EARLY if given.get(name)} | outlived_by_features(version)
    on -= {name for name, since in _effective_since.items() if not exists_in(version, since, "")}
    changes = {one.name for one in CHANGES if exists_in(version, one.since, one.until)}
    of_stages = {name for name in (ALL_ALPHA, ALL_BETA) if given.get(name)}
    return Release(version, frozenset(on & GATES | of_stages | changes))


def gates_in(release: Release) -> Iterator[tuple[str, str, bool]]:
    """Return the name of every gate of a version, its stage as the metric writes it, and whether it is on."""
    yield ALL_ALPHA, "ALPHA", ALL_ALPHA in release.features
    yield ALL_BETA, "BETA", ALL_BETA in release.features
    for name, gate in sorted(gates_of(release.version).items()):
        on = name in release.features if name in GATES else gate.on
        yield name, "" if gate.stage == "GA" else gate.stage.upper(), on


def release_of(recorded: str) -> Release:
    """Return the version that a journal records, with default features; the nearest if a later release wrote it."""
    return choose_release(nearest_version(stored_version(recorded)))


def features_of_files(dialect: str, features: frozenset[str]) -> frozenset[str]:
    """Return the features that decide about configuration files: the documents' dialect has their newest form."""
    return choose_release(NEWEST).features if dialect == DOCUMENTS_DIALECT else features


def _default(gate: Gate, given: Mapping[str, bool]) -> bool:
    if gate.locked:
        return gate.on
    return given.get({"Alpha": ALL_ALPHA, "Beta": ALL_BETA}.get(gate.stage, ""), gate.on)


def _parse(text: str, version: str, gates: Mapping[str, Gate]) -> dict[str, bool]:
    given: dict[str, bool] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = entry.partition("=")
        if not equals:
            raise ValueError(f"{entry!r} has no value; write {entry}=true or {entry}=false")
        if name not in gates and name not in EARLY | {ALL_ALPHA, ALL_BETA}:
            raise ValueError(
                f"there is no feature {name!r} in Kubernetes {version}; {_suggestion(name, gates)}"
            )
        if value.lower() not in ("true", "false"):
            raise ValueError(f"{entry!r} is neither true nor false")
        given[name] = value.lower() == "true"
    for name, on in given.items():
        _refuse_fixed(name, on, gates.get(name))
    return given


def _refuse_fixed(name: str, on: bool, gate: Gate | None) -> None:
    if name == ALL_BETA and not on:
        raise ValueError(f"{name} cannot be switched off: this server always has some of these features")
    if gate is None or on == gate.on or (name in GATES and not gate.locked):
        return
    if gate.on:
        raise ValueError(f"{name} cannot be switched off: this server always has it")
    raise ValueError(f"{name} cannot be switched on: it has no effect in this server; leave it out")


def _suggestion(name: str, gates: Mapping[str, Gate]) -> str:
    import difflib

    near = difflib.get_close_matches(name, {*gates, *EARLY}, n=1)
    if near:
        return f"did you mean {near[0]}?"
    off = sorted(one for one in GATES if one in gates and not gates[one].on)
    return f"these are off until asked for: {', '.join(off)}"
