"""From NPU operations to a program over abstract buffers. Knows no weights, no addresses, no registers."""
