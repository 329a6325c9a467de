"""TFLite bytes to `ir.Graph`."""
