"""Finds the real public models that the project does not commit."""

from __future__ import annotations

import os
from pathlib import Path


def model_folder() -> Path | None:
    """$ETHOSCADE_MODELS, else `shared/models` in a folder above the project; None if there is neither."""
    named = os.environ.get("ETHOSCADE_MODELS")
    if named:
        return Path(named) if Path(named).is_dir() else None
    for parent in Path(__file__).resolve().parents[1:]:
        if (parent / "shared" / "models").is_dir():
            return parent / "shared" / "models"
    return None


def model_paths() -> list[Path]:
    """Every TFLite file among them, by name; empty if there are none."""
    folder = model_folder()
    return sorted(folder.glob("*.tflite")) if folder else []


def tosa_paths() -> list[Path]:
    """Every TOSA file in the folder `tosa` beside the models, by name; empty if there are none."""
    folder = model_folder()
    return sorted((folder.parent / "tosa").glob("*.tosa")) if folder else []


NO_TOSA = "no folder 'tosa' with .tosa files beside the models ($ETHOSCADE_MODELS)"
NO_MODELS = "no models: set ETHOSCADE_MODELS to a folder of .tflite files"
