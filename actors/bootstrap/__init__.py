"""The initial objects of a cluster (`objects`), created at the start where they are missing (`bootstrap`)."""
