"""What is read off a network, a program or an artefact: costs, memory, causes, advice.

Owns the types of these findings and their words. Compiles nothing; `pipeline` hands over what it made.
"""
