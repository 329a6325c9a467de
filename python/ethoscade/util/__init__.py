"""What every room may use: callers' values checked, files read and written whole, a mapping that is frozen."""
