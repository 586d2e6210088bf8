"""ResourceQuota: `usage` counts what an object uses, `accounts` what a namespace uses, `resource_quota` refuses."""
