"""Benchmarks: run the same scenario through the engine and through bare statements."""
