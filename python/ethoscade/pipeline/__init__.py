"""From a model to what a caller gets: the order of the stages, what runs where, results and their explanation.

Owns how stages follow one another; what a stage does is its own room's.
"""
