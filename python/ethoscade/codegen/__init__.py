"""From operations and a program to what a device gets: constants, command streams, files. Decides no schedule."""
