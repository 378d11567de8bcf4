"""Clients of the engine."""
