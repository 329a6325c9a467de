"""The command line, one file a command: its arguments, what it does, what it prints.

`arguments`, `common` and `console` are what commands share. What is in a report is `report`'s; what a command asks is
the library's.
"""
