"""What a change means: kinds, validation, admission, access and the actors that own each resource type."""
