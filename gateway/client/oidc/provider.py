"""Asks an identity provider for a new ID token: discovery of the token endpoint, and the refresh request.

No error contains what was sent or received: requests and responses hold secrets.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

import httpx

from gateway.client.credentials import basic
from gateway.client.errors import CredentialError
from gateway.client.oidc.config import OidcConfig, is_https
from gateway.client.proxies import environment_proxy
from gateway.client.tls import client_context

_SECONDS = 30
_ERROR_CODE = re.compile(r"[a-z_]{1,60}")


@dataclass(frozen=True, slots=True)
class Refreshed:
    id_token: str = field(repr=False)
    refresh_token: str = field(repr=False)  # empty where the old one stays valid


def refresh(config: OidcConfig) -> Refreshed:
    context = client_context(config.authority, None, f"{config.source}.idp-certificate-authority")
    try:
        return _refresh(context, config)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:
        raise CredentialError(
            f"{config.source}.idp-issuer-url: cannot reach the provider: {_reason(error)}; check the URL, "
            "idp-certificate-authority and HTTPS_PROXY"
        ) from error


def _refresh(context: ssl.SSLContext, config: OidcConfig) -> Refreshed:
    url = f"{config.issuer.rstrip('/')}/.well-known/openid-configuration"
    with _client(context, url) as client:
        provider = _document(client.get(url))
    endpoint = provider.get("token_endpoint")
    if not isinstance(endpoint, str) or not is_https(endpoint):
        raise CredentialError(
            f"{config.source}.idp-issuer-url: {url} names no token_endpoint with https; check the URL"
        )
    form = {"grant_type": "refresh_token", "refresh_token": config.refresh_token}
    headers = {"accept": "application/json"}
    if config.client_secret and _by_header(provider):
        name, secret = quote_plus(config.client_id), quote_plus(config.client_secret)
        headers["authorization"] = basic(name, secret)
    else:
        form["client_id"] = config.client_id
        if config.client_secret:
            form["client_secret"] = config.client_secret
    with _client(context, endpoint) as client:
        return _refreshed(config, client.post(endpoint, data=form, headers=headers))


def _client(context: ssl.SSLContext, url: str) -> httpx.Client:
    proxy = environment_proxy(url) or None
    return httpx.Client(verify=context, timeout=_SECONDS, proxy=proxy, trust_env=False)


def _by_header(provider: dict[str, Any]) -> bool:
    """Every provider must accept the header, unless it says otherwise."""
    methods = provider.get("token_endpoint_auth_methods_supported")
    return not isinstance(methods, list) or "client_secret_basic" in methods


def _refreshed(config: OidcConfig, response: httpx.Response) -> Refreshed:
    document = _document(response)
    if response.status_code != 200:
        code = document.get("error")
        shown = f" ({code})" if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""
        raise CredentialError(
            f"{config.source}.refresh-token: the provider refused it with {response.status_code}{shown}; sign in at "
            "the provider again, and store the new tokens"
        )
    id_token, refresh_token = document.get("id_token"), document.get("refresh_token")
    if not isinstance(id_token, str) or not id_token:
        raise CredentialError(
            f"{config.source}: the response of the provider to the refresh has no id_token, so the helper cannot be "
            "used with it; get an ID token yourself and pass it with --token"
        )
    return Refreshed(id_token, refresh_token if isinstance(refresh_token, str) else "")


def _document(response: httpx.Response) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {}


def _reason(error: Exception) -> str:
    if isinstance(error, ValueError | ImportError):
        return "the proxy cannot be used"  # without its URL, which may hold a password
    return str(error).partition(" (_ssl")[0] or type(error).__name__
