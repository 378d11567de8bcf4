"""Durable steps: their names and order, their stored results, and their retries."""
