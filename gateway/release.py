"""The release, said once: packaging reads it here, so that nobody has to load package metadata to know it."""

RELEASE = "0.1.0"
# As /version and descriptions of the API name what is served: the interface, and the program behind it.
SERVED_VERSION = f"v1.25.16+rewound.{RELEASE}"
