"""What people look at: text, JSON, plots, traces. Computes nothing that is printed."""
