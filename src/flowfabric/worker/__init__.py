"""Running handlers: claiming, renewing, steps, waits, executors, and the low level for loops written by hand."""
