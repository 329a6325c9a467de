"""From stages and a program to what a device gets: constants, command streams, files. Decides nothing of a schedule."""
