"""Compile quantised TensorFlow Lite models for Arm Ethos-U NPUs inside the SRAM you have."""
