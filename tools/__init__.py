"""What keeps the project itself in order; not part of the package."""
