"""What a cluster needs beside a single server: where slots lie, and what belongs to several of them."""
