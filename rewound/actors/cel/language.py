"""Which CEL an expression is written in: the libraries that it may use, and the behaviour of its version of cel-go.

A server of a version has two: a new expression may use what the version before also knows, so that the cluster can go
back to it; a stored expression may use everything that the server knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from rewound.actors.names import Names
from rewound.actors.versions.features import (
    CEL_BEHAVIOUR,
    CEL_LIBRARIES,
    CEL_SELECTORS,
    SELECTORS,
    in_stored_expressions,
)


@dataclass(frozen=True, slots=True)
class Language:
    """`url_type` is the name of the URL type, which differs between dialects.

    Without `library_costs`, an evaluation charges 1 for every function of Kubernetes, as it does for admission policies
    and match conditions before 1.32.
    """

    url_type: str
    features: frozenset[str] = frozenset()
    library_costs: bool = True


def language_of(
    names: Names,
    features: Set[str],
    *,
    stored: bool = False,
    library_costs: bool = True,
    also: Iterable[str] = (),
) -> Language:
    """Return the language of new expressions, or of stored ones, on a server with these features.

    `also` are libraries that only some expressions have.
    """
    libraries = {
        name for name in CEL_LIBRARIES if (in_stored_expressions(name) if stored else name) in features
    }
    if SELECTORS not in features:
        libraries.discard(CEL_SELECTORS)
    return Language(
        names.url_type, frozenset((*libraries, *also, *(CEL_BEHAVIOUR & features))), library_costs
    )
