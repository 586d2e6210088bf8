"""Creates the two plugins that call webhooks."""

from __future__ import annotations

from collections.abc import Sequence

from actors.access.remote.calls import Calls
from actors.admission.configuration import AdmissionConfiguration
from actors.admission.timings import WebhookTimings
from actors.admission.webhooks.clients import WebhookClients
from actors.admission.webhooks.credentials import WebhookCredentials, read_credentials
from actors.admission.webhooks.matching import Configurations
from actors.admission.webhooks.mutating import MutatingAdmissionWebhook
from actors.admission.webhooks.rejections import Rejections
from actors.admission.webhooks.services import Services
from actors.admission.webhooks.validating import ValidatingAdmissionWebhook
from actors.conversion.converter import Converter
from actors.kinds.declaration.definition import Definition
from actors.kinds.registry import Registry
from actors.names import Names
from actors.store.feed import Feed
from journal.log import Journal


def webhook_plugins(
    names: Names,
    journal: Journal,
    feed: Feed,
    configuration: AdmissionConfiguration,
    registry: Registry | None,
    calls: Calls,
    converter: Converter | None = None,
) -> tuple[MutatingAdmissionWebhook, ValidatingAdmissionWebhook]:
    """Without a registry, no version of a kind is equivalent to another one."""
    services, rejections, timings = Services(journal), Rejections(), WebhookTimings()
    converter = converter or Converter(names, WebhookClients(services, WebhookCredentials(), calls))

    def equivalents(definition: Definition) -> Sequence[Definition]:
        found = registry.current.stored_type(definition.type_name) if registry is not None else None
        return found.served if found is not None else ()

    def configured(plugin: str, kind: str) -> tuple[Configurations, WebhookClients]:
        configurations = Configurations(names, kind, journal, feed, equivalents)
        if registry is not None:
            registry.follow(lambda *_: configurations.forget_kinds())
        credentials = read_credentials(configuration.of(plugin), names)
        return configurations, WebhookClients(services, credentials, calls)

    return (
        MutatingAdmissionWebhook(
            names, *configured(MutatingAdmissionWebhook.name, "mutating"), rejections, timings, converter
        ),
        ValidatingAdmissionWebhook(
            names, *configured(ValidatingAdmissionWebhook.name, "validating"), rejections, timings, converter
        ),
    )
