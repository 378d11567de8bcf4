"""The Lua library, and how it is built."""
