"""Kinds that CustomResourceDefinitions declare: definitions made of stored objects at run time."""
