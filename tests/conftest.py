"""Shared by all tests. Its place also puts `tests/` on the import path, where the test helpers are."""
