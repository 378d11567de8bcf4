"""Watching the server: logs, metrics, counts and traces."""
