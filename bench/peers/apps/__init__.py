"""One small application for each peer: a task that does nothing but count, and a way to submit it."""
