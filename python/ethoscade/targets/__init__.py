"""What a network is compiled for: accelerators and boards, devices by description, Cortex-M cores.

Owns their names, figures and files. Knows nothing of networks.
"""
