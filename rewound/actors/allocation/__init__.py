"""ClusterIPs and node ports of Services: the pools, the rules of allocation, and what is allocated."""
