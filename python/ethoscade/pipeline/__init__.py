"""From a model to what a caller gets: the order of the stages, what runs where, and results.

Owns how stages follow one another; what a stage does is its own room's.
"""
