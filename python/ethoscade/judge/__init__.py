"""What operators compute, bit by bit, by judges who know nothing of what they judge.

Owns the reference, LiteRT and TensorFlow Lite Micro as judges, who of them decides, and the comparison.
"""
