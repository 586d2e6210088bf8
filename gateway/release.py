"""The release, said once: packaging reads it here, so that nobody has to load package metadata to know it."""

RELEASE = "0.1.0"
