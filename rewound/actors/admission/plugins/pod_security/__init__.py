"""Pod Security admission: the Pod Security Standards, enforced, audited or warned about by namespace."""
