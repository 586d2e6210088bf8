"""Representations: objects as JSON, YAML, protobuf and Tables, and which one a client gets (`negotiate`)."""
