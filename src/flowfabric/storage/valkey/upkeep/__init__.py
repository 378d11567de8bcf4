"""Repair, and reading everything."""
