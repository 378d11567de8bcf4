"""Who is let in, and what they may see: tokens, principals, links, permits, the audit log."""
