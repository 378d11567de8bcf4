"""The way to a server: connections, replies, errors, wake-ups."""
