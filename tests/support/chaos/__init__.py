"""Real processes on one file: some work, some are killed, and somebody independent looks at what is left."""
