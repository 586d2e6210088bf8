"""Creates the two plugins that call webhooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rewound.actors.admission.context import PluginContext
from rewound.actors.admission.timings import ConditionTimings, WebhookTimings
from rewound.actors.admission.webhooks.clients import WebhookClients
from rewound.actors.admission.webhooks.credentials import WebhookCredentials, read_credentials
from rewound.actors.admission.webhooks.matching import ConditionsMet, Configurations
from rewound.actors.admission.webhooks.mutating import MutatingAdmissionWebhook
from rewound.actors.admission.webhooks.services import Services
from rewound.actors.admission.webhooks.validating import ValidatingAdmissionWebhook
from rewound.actors.conversion.converter import Converter
from rewound.actors.kinds.declaration.definition import Definition


def webhook_plugins(
    context: PluginContext, conditions_met: Callable[[str, ConditionTimings, Converter], ConditionsMet]
) -> tuple[MutatingAdmissionWebhook, ValidatingAdmissionWebhook]:
    """`conditions_met` makes the check of match conditions of one kind: admit or validating."""
    names, registry, calls = context.names, context.registry, context.calls
    services, timings = Services(context.journal), WebhookTimings(context.conditions)
    converter = context.converter or Converter(names, WebhookClients(services, WebhookCredentials(), calls))

    def equivalents(definition: Definition) -> Sequence[Definition]:
        found = registry.current.stored_type(definition.type_name) if registry is not None else None
        return found.served if found is not None else ()

    def configured(plugin: str, kind: str) -> tuple[Configurations, WebhookClients]:
        configurations = Configurations(names, kind, context.journal, context.feed, equivalents)
        if registry is not None:
            registry.follow(lambda *_: configurations.forget_kinds())
        credentials = read_credentials(context.configuration.of(plugin), names)
        return configurations, WebhookClients(services, credentials, calls)

    return (
        MutatingAdmissionWebhook(
            names,
            *configured(MutatingAdmissionWebhook.name, "mutating"),
            timings,
            converter,
            conditions_met("admit", timings.conditions, converter),
        ),
        ValidatingAdmissionWebhook(
            names,
            *configured(ValidatingAdmissionWebhook.name, "validating"),
            timings,
            converter,
            conditions_met("validating", timings.conditions, converter),
        ),
    )
