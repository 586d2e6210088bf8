"""Client credentials for webhooks, chosen by the host and port of the webhook.

`kubeConfigFile` of a WebhookAdmissionConfiguration names a kubeconfig whose users are credentials. The name of a user
is `host:port` of a webhook (`<service>.<namespace>.svc:port` of a service); `*` may stand for leading labels, and
port 443 may be left out:

    hook.example.com:8443    *.example.com:8443    *.com:8443       the name with its port
    hook.example.com         *.example.com         *.com            for port 443
    *                                                               everything else
    the user of current-context, or none

The server reads the file at its start; it reads a token file again when its contents may have changed.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rewound.actors.access.remote.kubeconfig_file import Kubeconfig, KubeconfigError, User, read_kubeconfig
from rewound.actors.access.remote.target import ANONYMOUS, identify
from rewound.actors.admission.configuration import AdmissionConfigurationError, PluginConfiguration
from rewound.actors.certificates.trust import unverifying
from rewound.actors.names import Names


class WebhookCredentials(msgspec.Struct, frozen=True):
    kubeconfig: Kubeconfig | None = None

    def user(self, host: str, port: int) -> User:
        """The user to be for a webhook; anonymous if the file has none for it."""
        if self.kubeconfig is None:
            return ANONYMOUS
        users = self.kubeconfig.users
        for name in _names(host, port):
            if name in users:
                return users[name]
        if self.kubeconfig.current_context:
            return self.kubeconfig.selected().user
        return ANONYMOUS

    def identify(self, context: ssl.SSLContext, user: User) -> None:
        if self.kubeconfig is not None:
            identify(context, self.kubeconfig.path, user)


def _names(host: str, port: int) -> Iterator[str]:
    yield from _patterns(f"{host}:{port}")
    if port == 443:
        yield from _patterns(host)
    yield "*"


def _patterns(target: str) -> Iterator[str]:
    yield target
    labels = target.split(".")
    for first in range(1, len(labels)):
        yield ".".join(("*", *labels[first:]))


def read_credentials(given: PluginConfiguration | None, names: Names) -> WebhookCredentials:
    """From the configuration of a webhook plugin. AdmissionConfigurationError for everything that cannot work."""
    if given is None:
        return WebhookCredentials()
    group = names.group("apiserver.config")
    given.check_type(
        (f"{group}/v1", "WebhookAdmissionConfiguration"),
        (f"{group}/v1alpha1", "WebhookAdmissionConfiguration"),
        (f"{group}/v1alpha1", "WebhookAdmission"),
    )
    given.check_fields("kubeConfigFile")
    path = given.document.get("kubeConfigFile")
    if not path:
        return WebhookCredentials()
    if not isinstance(path, str) or not Path(path).is_absolute():
        raise given.error("kubeConfigFile", "must be an absolute file path")
    try:
        return _checked(read_kubeconfig(Path(path)))
    except KubeconfigError as error:
        raise AdmissionConfigurationError(str(error)) from None


def _checked(kubeconfig: Kubeconfig) -> WebhookCredentials:
    """Refuse what would fail with the first call: missing files, keys that do not fit, an unknown context."""
    for user in kubeconfig.users.values():
        if user.fields.keys() & {"exec", "auth-provider"}:
            raise KubeconfigError(
                f"{kubeconfig.path}: users[{user.name}].user: exec and auth-provider are not for webhooks; "
                "give a certificate, a password, a token or a tokenFile"
            )
        identify(unverifying(), kubeconfig.path, user)
    if kubeconfig.current_context:
        kubeconfig.selected()
    return WebhookCredentials(kubeconfig)
