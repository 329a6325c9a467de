"""Networks of a sliding window made to take only what is new.

Owns what of each tensor is new in a run and what is kept of the runs before (`rows`), and the file that does so
(`file`). Compiles nothing.
"""
