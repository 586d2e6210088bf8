"""Field ownership: `apply` is server-side apply, `ownership` computes managedFields after other writes. Pure."""
