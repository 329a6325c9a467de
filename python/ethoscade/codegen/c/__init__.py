"""The text of a compiled network as C99; `codegen.c_source` puts the files together."""
