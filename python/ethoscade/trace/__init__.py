"""One inference as viewers of others take it: Perfetto's timeline, Vela's debug database, Model Explorer's graph.

Owns what was recorded of an inference and these formats. It takes compiled files and streams with what is known of
them; how a network was compiled it does not know.
"""
