"""A custom kind for the tests of clients."""

from __future__ import annotations

from typing import Any

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "shops",
            "singular": "shop",
            "kind": "Shop",
            "shortNames": ["sh"],
            "categories": ["all"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "description": "A shop of the town.",
                        "type": "object",
                        "properties": {
                            "spec": {
                                "description": "What the owner wants.",
                                "type": "object",
                                "required": ["colour"],
                                "properties": {
                                    "colour": {
                                        "description": "Colour of the walls.",
                                        "type": "string",
                                        "enum": ["red", "blue"],
                                    },
                                    "tills": {"type": "integer", "default": 1, "minimum": 0},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "tills": {"type": "integer"},
                                    "selector": {"type": "string"},
                                    "phase": {"type": "string"},
                                },
                            },
                        },
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.tills",
                        "statusReplicasPath": ".status.tills",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
                    {"name": "Tills", "type": "integer", "jsonPath": ".spec.tills"},
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
                ],
            }
        ],
    },
}


def shop(name: str, colour: str) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Shop",
        "metadata": {"name": name},
        "spec": {"colour": colour},
    }
