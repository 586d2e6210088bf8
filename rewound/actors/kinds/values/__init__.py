"""Values that are more than their JSON type: quantities, times and PEM text."""
