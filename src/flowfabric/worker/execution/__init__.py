"""Where handlers run, how they are interrupted, and how their outcomes reach the store."""
