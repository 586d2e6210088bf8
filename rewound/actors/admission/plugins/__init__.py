"""The admission plugins, one module for each; `pod_security/` and `quota/` have several modules."""
