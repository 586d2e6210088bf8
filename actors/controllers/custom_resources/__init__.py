"""What becomes of CustomResourceDefinitions: published kinds, accepted names, deleted objects."""
