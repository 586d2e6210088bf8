"""ResourceQuota: `usage` measures an object, `accounts` sums up a namespace, `resource_quota` rejects writes."""
