"""What happens when a store is opened."""
