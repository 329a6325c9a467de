"""An extension of Google's Model Explorer that opens compiled files, ours and Vela's.

Model Explorer loads it by name: `model-explorer net_ethosu.tflite --extensions=ethoscade.explorer`. It takes the
module `main` of a package, which alone imports Model Explorer.
"""
