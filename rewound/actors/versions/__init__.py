"""The versions of Kubernetes that one server can be: 1.25 to 1.36.

What differs between versions is declared, not branched on. A field, a kind or a subresource says beside its declaration
in which versions it exists, which gate it belongs to, and how it was declared before; behaviour that changed has a name
in `features`. The catalog of a version is made from these declarations
at start (`actors/kinds/built_in.py`); other code asks only whether a feature is on, never for the version.

`version` has the versions, `gates` the feature gates of each, `features` what code can ask for and the parser of
`--feature-gates`; `actors/kinds/schema/projection.py` makes the declarations of one version.
"""
