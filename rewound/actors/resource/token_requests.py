"""TokenRequests: issues a token for a service account, bound to a Pod or Secret if the request says so.

Nothing is stored, so no actor is involved; admission runs here. The order of the steps is that of Kubernetes, and
decides which error a client gets: mutating admission, name, account, validation, validating admission, bound object.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rewound.actors.access.accounts.claims import ACCOUNTS, NODES, PODS, SECRETS, Reference
from rewound.actors.access.accounts.tokens import TokenIssuer
from rewound.actors.admission.chain import admit_ephemeral, validate_ephemeral
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import BadRequest, Conflict, Invalid, Resource
from rewound.actors.golang.json import dumps
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.validation import collect_with, invalid
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object, WriteContext
from rewound.actors.patch.managed_fields.ownership import creator_entries
from rewound.actors.resource.decide import drop_system_metadata
from rewound.actors.resource.directory import Directory
from rewound.actors.selectors.facts import unpack_uids
from rewound.actors.store.document import decode
from rewound.actors.versions.features import (
    ACCOUNT_UIDS,
    NODE_TOKENS_KNOWN,
    TOKEN_IDS,
    TOKEN_NODES,
    TOKENS_OF_NODES,
)
from rewound.journal.log import Journal
from rewound.journal.records import Row

SUBRESOURCE = "token"
NO_STATUS: Object = {"token": "", "expirationTimestamp": None}  # what webhooks see
_KINDS = {"Pod": PODS, "Secret": SECRETS}
# The time that the volumes of pods ask for; such tokens are accepted for a year, because old clients never read the
# file again. --service-account-max-token-expiration limits that too.
_VOLUME_SECONDS, _EXTENDED_SECONDS = 3607, 365 * 86400


@dataclass(frozen=True, slots=True)
class Issued:
    body: bytes = field(repr=False)  # the TokenRequest with its status
    warnings: tuple[str, ...]


class TokenRequests:
    def __init__(self, catalog: Catalog, journal: Journal, directory: Directory, issuer: TokenIssuer) -> None:
        self._catalog = catalog
        self._journal = journal
        self._directory = directory
        self._issuer = issuer

    async def create(
        self,
        accounts: Definition,
        view: Definition,
        namespace: str,
        name: str,
        sent: Object,
        context: WriteContext,
        dry_run: bool,
    ) -> Issued:
        """`sent` is a decoded TokenRequest; `view` its definition."""
        keeps_uid = ACCOUNT_UIDS in self._issuer.options.features
        uid = sent["metadata"].get("uid", "") if keeps_uid else ""
        _complete(view, sent, context)
        if uid:
            sent["metadata"]["uid"] = uid
        request = AdmissionRequest(
            CREATE, accounts, namespace, name, SUBRESOURCE, sent, None, context.user, dry_run, context
        )
        chain = self._directory.admission_chain(accounts, CREATE, SUBRESOURCE)
        await admit_ephemeral(chain, request)
        wanted = request.object
        assert wanted is not None
        account = self._account(accounts, view, namespace, name, wanted)
        if uid and uid != account.uid:
            why = (
                f"the UID in the token request ({uid}) does not match the UID of the service account "
                f"({account.uid})"
            )
            raise Conflict(Resource(view.group, view.kind), name, why)
        wanted = self._prepared(wanted, account, context)
        errors = collect_with(view.features, view.strategy.validate_create, wanted)
        if errors:
            raise Invalid(view.group, view.kind, "", [error.cause() for error in errors])
        request.object = wanted
        await validate_ephemeral(chain, request)
        bound = self._bound_object(account, wanted["spec"].get("boundObjectRef"))
        warnings = [*request.warnings, *self._shorten(wanted["spec"])]
        wanted["status"] = await self._status(account, bound, wanted["spec"], context)
        return Issued(dumps(wanted), tuple(warnings))

    def _account(
        self, accounts: Definition, view: Definition, namespace: str, name: str, wanted: Object
    ) -> Reference:
        sent_name = wanted["metadata"].get("name") or name
        if sent_name != name:
            error = invalid("metadata.name", sent_name, "must match the service account name if specified")
            raise Invalid(view.group, view.kind, name, [error.cause()])
        row = self._row(ACCOUNTS, namespace, name)
        if row is None:
            raise accounts.not_found(name)
        return Reference(ACCOUNTS, namespace, name, unpack_uids(row.facts)[0])

    def _prepared(self, wanted: Object, account: Reference, context: WriteContext) -> Object:
        spec = dict(wanted["spec"])
        spec["audiences"] = spec.get("audiences") or list(self._issuer.options.audiences)
        metadata = {
            "name": account.name,
            "namespace": account.namespace,
            **({"uid": account.uid} if ACCOUNT_UIDS in self._issuer.options.features else {}),
            **wanted["metadata"],
            "creationTimestamp": seconds_text(context.time),
        }
        return {"metadata": metadata, "spec": spec, "status": NO_STATUS}

    def _bound_object(self, account: Reference, reference: Object | None) -> Reference | None:
        if reference is None:
            return None
        kind, name = reference.get("kind", ""), reference.get("name", "")
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        plural = "" if group else _KINDS.get(kind, "")
        features = self._issuer.options.features
        if not group and kind == "Node" and NODE_TOKENS_KNOWN in features:
            if TOKENS_OF_NODES not in features:
                gate = f'"{TOKENS_OF_NODES}" feature-gate'
                raise BadRequest(f"cannot bind token to a Node object as the {gate} is disabled")
            plural = NODES
        if not plural:
            raise BadRequest(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        if not name:
            raise BadRequest("Name parameter required.")
        namespace = "" if plural == NODES else account.namespace
        row = self._row(plural, namespace, name)
        if row is None:
            raise self._catalog.storage(plural).not_found(name)
        if plural == PODS and decode(row.body)["spec"].get("serviceAccountName") != account.name:
            raise BadRequest(
                f'cannot bind token for serviceaccount "{account.name}" to pod running with different '
                "serviceaccount name."
            )
        uid = unpack_uids(row.facts)[0]
        if (expected := reference.get("uid", "")) and expected != uid:
            why = (
                f"the UID in the bound object reference ({expected}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise Conflict(Resource(group, kind), name, why)
        return Reference(plural, namespace, name, uid)

    def _node_of(self, bound: Reference | None) -> Reference | None:
        """The node of the pod that a token is bound to. Its uid is empty if it does not exist."""
        if bound is None or bound.plural != PODS or TOKEN_NODES not in self._issuer.options.features:
            return None
        row = self._row(PODS, bound.namespace, bound.name)
        name = "" if row is None else decode(row.body)["spec"].get("nodeName", "")
        if not name:
            return None
        node = self._row(NODES, "", name)
        return Reference(NODES, "", name, "" if node is None else unpack_uids(node.facts)[0])

    def _shorten(self, spec: Object) -> list[str]:
        """Limit the requested life of the token; returns the warning about that."""
        seconds, limit = spec["expirationSeconds"], self._issuer.options.max_seconds
        if not limit or seconds <= limit:
            return []
        spec["expirationSeconds"] = limit
        return [f"requested expiration of {seconds} seconds shortened to {limit} seconds"]

    async def _status(
        self, account: Reference, bound: Reference | None, spec: Object, context: WriteContext
    ) -> Object:
        seconds, audiences = spec["expirationSeconds"], tuple(spec["audiences"])
        lifetime, warn_after = seconds, 0
        options = self._issuer.options
        if (
            options.extend
            and bound is not None
            and bound.plural == PODS
            and seconds == _VOLUME_SECONDS
            and set(audiences) <= set(options.audiences)
        ):
            lifetime, warn_after = min(_EXTENDED_SECONDS, options.max_seconds or _EXTENDED_SECONDS), seconds
        now = context.time // 1_000_000
        token_id = context.uid if TOKEN_IDS in options.features else ""
        token = await self._issuer.bound_token(
            *(account, bound, audiences, now, lifetime, warn_after, self._node_of(bound), token_id)
        )
        if token_id and context.annotations is not None:
            context.annotations.setdefault(self._issuer.id_annotation, f"JTI={token_id}")
        return {"token": token, "expirationTimestamp": seconds_text(context.time + seconds * 1_000_000)}

    def _row(self, plural: str, namespace: str, name: str) -> Row | None:
        with self._journal.read() as view:
            return view.get(self._journal.type_id(plural), namespace, name)


def _complete(view: Definition, sent: Object, context: WriteContext) -> None:
    """Set managedFields, and drop what only the server sets."""
    sent.pop("status", None)
    drop_system_metadata(sent["metadata"])
    sent["metadata"].pop("managedFields", None)
    entries = creator_entries(view, SUBRESOURCE, sent, context.manager, seconds_text(context.time))
    if entries:
        sent["metadata"]["managedFields"] = entries
    sent["status"] = NO_STATUS
