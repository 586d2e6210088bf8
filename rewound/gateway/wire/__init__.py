"""Representations: objects as JSON, YAML, protobuf and Tables, and which of them a client gets (`negotiate`)."""
