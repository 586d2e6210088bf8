"""Representations: objects as JSON, YAML, protobuf, CBOR and Tables, and which of them a client gets (`negotiate`)."""
