"""Sends requests to one server with the credentials of a kubeconfig file, and turns refusals into errors.

A session keeps its connections. It asks for the credential before every request; when the client certificate has
changed it closes all connections, because a certificate is presented in the TLS handshake only. A 401 is reported to
the credential source and then to the caller: the next request uses a fresh credential. It retries after 429 and 503
with Retry-After. Clients in Go retry after every 5xx; but a request for a version that does not exist yet (504), or a
write to a full disk (507), should fail at once.
"""

from __future__ import annotations

import json
import re
import ssl
import sys
import threading
from collections.abc import Mapping
from http.client import HTTPException, responses
from time import sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

from rewound.actors.rewind.difference import escaped
from rewound.client.connections import Connections, Response
from rewound.client.credentials import Credential, KeyPair
from rewound.client.errors import ClientError, CredentialError, StatusError, print_warnings
from rewound.client.target import Target, client_context, environment_proxy
from rewound.release import RELEASE

if TYPE_CHECKING:
    import httpx

_SECONDS = 60
_RETRIES = 10
_LONGEST_WAIT = 60  # seconds; with a longer Retry-After the request fails at once
_HEADER_VALUE = re.compile(rb"[^\x00-\x20\x7f]([^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?")
# TLS alerts of a server that refuses a client certificate, by the names that OpenSSL has for them.
_ALERT = re.compile(
    "ALERT_(CERTIFICATE_EXPIRED|UNKNOWN_CA|BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|UNSUPPORTED_CERTIFICATE)"
)
_ALERTS = {"CERTIFICATE_EXPIRED": "it has expired", "UNKNOWN_CA": "the server does not trust its CA"}
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
_PLAIN_TO_TLS = "client sent an HTTP request to an HTTPS server"
Document = dict[str, Any]
Query = Mapping[str, str | list[str]]  # a parameter may be given several times


class Session:
    def __init__(self, target: Target, agent: str = "rewound") -> None:
        """`agent`: the name of the program in the User-Agent."""
        self.target = target
        self._agent = f"{agent}/{RELEASE}".encode()
        self._lock = threading.Lock()
        self._connections: Connections | _Proxied | None = None
        self._pair: KeyPair | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if self._connections is not None:
                self._connections.close()
            self._connections = None

    def get(self, path: str, **query: str) -> Document:
        return self.request("GET", path, query=query)

    def get_as(self, accept: str, path: str, query: Query) -> Document:
        """Get another representation than JSON of the object, such as a Table."""
        return self.request("GET", path, query=query, accept=accept)

    def post(self, path: str, body: Document) -> Document:
        return self.request("POST", path, body)

    def put(self, path: str, body: Document) -> Document:
        return self.request("PUT", path, body)

    def delete(self, path: str) -> Document:
        return self.request("DELETE", path)

    def apply(self, path: str, body: Document, manager: str) -> Document:
        """Apply an object on the server's side, with force: other managers lose the fields that it has."""
        query = {"fieldManager": manager, "force": "true"}
        return self.request("PATCH", path, body, query, content_type="application/apply-patch+yaml")

    def request(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        query: Query | None = None,
        accept: str = "application/json",
        content_type: str = "",
    ) -> Document:
        """Send a request; returns the document of a successful response. Raises StatusError for any other.

        `content_type`: of the body, if it is not JSON.
        """
        for attempt in range(_RETRIES + 1):
            credential = self.target.credentials.credential()
            response = self._send(credential, method, path, body, query, accept, content_type)
            seconds = _retry_after(response)
            if seconds is None or attempt == _RETRIES:
                break
            why = escaped(str(self._refusal(response, credential)))
            print(f"rewound: {why}; trying again in {seconds} s", file=sys.stderr)
            sleep(seconds)
        if response.status_code == 401:
            self.target.credentials.rejected(credential)
        print_warnings(response.values("warning"))
        if response.status_code >= 300:
            raise self._refusal(response, credential)
        return _document(response, self.target)

    def _send(
        self,
        credential: Credential,
        method: str,
        path: str,
        body: Document | None,
        query: Query | None,
        accept: str,
        content_type: str,
    ) -> Response:
        headers, sent = self.headers(credential, accept), None
        if body is not None:
            headers.append((b"content-type", (content_type or "application/json").encode()))
            sent = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        target = urlsplit(self.target.server).path.rstrip("/") + path
        if query:
            target += ("&" if "?" in path else "?") + urlencode(query, doseq=True)
        connections = self._connections_for(credential.pair)
        try:
            return connections.request(method, target, sent, headers)
        except TimeoutError as error:
            raise ClientError(
                f"{self.target.server} did not respond within {_SECONDS} seconds ({self.target.configured_in}); "
                "is it overloaded, or is a firewall in between?"
            ) from error
        except (OSError, HTTPException, UnicodeError) as error:
            raise self._connection_error(error) from error

    def headers(self, credential: Credential, accept: str = "application/json") -> list[tuple[bytes, bytes]]:
        headers = [(b"accept", accept.encode()), (b"user-agent", self._agent)]
        if credential.authorization:
            headers.append((b"authorization", credential.authorization.encode()))
        if self.target.impersonated_user:
            headers.append((b"impersonate-user", self.target.impersonated_user.encode()))
        headers += [(b"impersonate-group", group.encode()) for group in self.target.impersonated_groups]
        for name, value in headers:
            # The error of the HTTP library would quote the value, which may be a token.
            if not _HEADER_VALUE.fullmatch(value):
                raise CredentialError(
                    f"{self.target.configured_in}: the value for the header {name.decode()} has a line break, another "
                    "control character or spaces at its ends; correct it"
                )
        return headers

    def _connections_for(self, pair: KeyPair | None) -> Connections | _Proxied:
        with self._lock:
            if self._connections is not None and pair != self._pair:
                self._connections.close()
                self._connections = None
            if self._connections is None:
                self._connections = self._open(pair)
                self._pair = pair
            return self._connections

    def _open(self, pair: KeyPair | None) -> Connections | _Proxied:
        target = self.target
        context: ssl.SSLContext | None = None  # plain HTTP needs none: loading the system's CAs is slow
        if target.server.startswith("https:"):
            context = client_context(target.authority, pair, target.configured_in, insecure=target.insecure)
        proxy = target.proxy_url or environment_proxy(target.server)
        if not proxy:
            return Connections(target.server, context, target.tls_server_name, _SECONDS)
        try:
            return _Proxied(target, context, proxy)
        except (ValueError, ImportError) as error:
            raise self._unusable_proxy() from error

    def _unusable_proxy(self) -> ClientError:
        by_file = bool(self.target.proxy_url)
        source = f"{self.target.configured_in}: proxy-url" if by_file else f"the proxy of {self._proxy()}"
        return ClientError(f"{source} cannot be used; give one that begins with http:// or https://")

    def _connection_error(self, error: Exception) -> ClientError:
        server, where = self.target.server, self.target.configured_in
        text = str(error)
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return ClientError(_untrusted(server, text, where))
        alert = _ALERT.search(text)
        if alert is not None:
            return ClientError(
                f"{server} does not accept the client certificate: {_ALERTS.get(alert[1], 'it cannot be used')}; get "
                f"another, such as by `rewound kubeconfig user`, or check client-certificate ({where})"
            )
        if any(one in text for one in _NO_TLS):
            return ClientError(
                f"{server} does not speak TLS; is its address right, or http:// meant ({where})?"
            )
        proxy = self._proxy()
        if proxy:
            return ClientError(
                f"cannot reach {server} through the proxy of {proxy}: {text}; check the proxy and the address, or "
                f"list the server in NO_PROXY ({where})"
            )
        return ClientError(
            f"cannot reach {server}: {text}; is the server running, and is its address right ({where})?"
        )

    def _proxy(self) -> str:
        """Where the proxy is configured; empty without one."""
        if self.target.proxy_url:
            return "proxy-url"
        if not environment_proxy(self.target.server):
            return ""
        return f"{urlsplit(self.target.server).scheme.upper()}_PROXY"

    def _refusal(self, response: Response, credential: Credential) -> StatusError:
        code = response.status_code
        try:
            status = response.json()
        except ValueError:
            status = None
        if not isinstance(status, dict) or not isinstance(status.get("message"), str):
            phrase = response.reason_phrase or responses.get(code, "")
            status = {"message": f"{self.target.server} responded with {code} {phrase}"}
        message = status["message"]
        if code == 400 and message == _PLAIN_TO_TLS:
            message += f"; give its address with https:// ({self.target.configured_in})"
        # A certificate is presented by TLS only.
        anonymous = not credential.authorization and (
            credential.pair is None or self.target.server.startswith("http:")
        )
        if code in (401, 403) and anonymous:
            message += ": the request had no credentials; give a token with --token, or check the user of "
            message += self.target.configured_in
        elif code == 401:
            message += ": the server does not accept these credentials; sign in again, or check "
            message += self.target.configured_in
        return StatusError(code, str(status.get("reason", "")), message, _retry_after(response))


class _Proxied:
    """Connections through a proxy: of any kind that httpx knows, which is imported only for them."""

    def __init__(self, target: Target, tls: ssl.SSLContext | None, proxy: str) -> None:
        import httpx

        parts = urlsplit(target.server)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._extensions = {"sni_hostname": target.tls_server_name} if target.tls_server_name else None
        self._errors = (httpx.HTTPError, httpx.InvalidURL)
        self._timeout = httpx.TimeoutException
        self._client: httpx.Client = httpx.Client(
            verify=tls or False, proxy=proxy, trust_env=False, timeout=_SECONDS
        )

    def request(
        self, method: str, target: str, body: bytes | None, headers: list[tuple[bytes, bytes]]
    ) -> Response:
        """As `Connections.request`."""
        try:
            found = self._client.request(
                method, self._origin + target, content=body, headers=headers, extensions=self._extensions
            )
        except self._timeout as error:
            raise TimeoutError(str(error)) from error
        except self._errors as error:
            raise OSError(str(error)) from error
        return Response(
            found.status_code, found.content, found.reason_phrase, tuple(found.headers.multi_items())
        )

    def close(self) -> None:
        self._client.close()


def _retry_after(response: Response) -> int | None:
    """How many seconds to wait before a retry; None for no retry."""
    text = "".join(response.values("retry-after")[:1])
    if response.status_code not in (429, 503):
        return None
    return int(text) if re.fullmatch("[0-9]{1,2}", text) and int(text) <= _LONGEST_WAIT else None


def _untrusted(server: str, text: str, where: str) -> str:
    reason = text.partition("failed: ")[2].partition(" (_ssl")[0] or "it cannot be verified"
    if "expired" in reason or "not yet valid" in reason:
        hint = "check the clock of this machine, or renew the certificate: a server with its own CA does so at a start"
    else:
        hint = "check certificate-authority and tls-server-name"
    return f"the certificate of {server} is not trusted: {reason}; {hint} ({where})"


def _document(response: Response, target: Target) -> Document:
    try:
        document = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        document = None
    if not isinstance(document, dict):
        raise ClientError(
            f"{target.server} did not respond with a JSON object; is it the API server ({target.configured_in})?"
        )
    return document
