"""CBOR, where the feature gate CBORServingAndStorage is on: `reader` decodes bodies, `writer` encodes responses."""
