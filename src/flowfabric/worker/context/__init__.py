"""What a handler is given: durable calls, waits, streams, and its faces for threads and processes."""
