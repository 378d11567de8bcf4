"""Measurements: the same scenario through the engine and through bare statements, in one run."""
