"""The leases that this process holds, and the thread that renews them."""
