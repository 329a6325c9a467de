"""Artefacts at work: on the simulated NPU, under its timing model, as emitted C; CPU operators played beside them.

Owns execution and the judge's call on what was executed. What is right is `judge`'s business.
"""
