"""Live streams: the common feed, the events of one execution, and server-sent events."""
