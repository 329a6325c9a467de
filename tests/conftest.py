"""Shared by all tests; being here also puts this folder's helper modules on the import path."""
