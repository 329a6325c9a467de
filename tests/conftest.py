"""Being here puts `tests/` on the import path, so that tests can share their helpers."""
