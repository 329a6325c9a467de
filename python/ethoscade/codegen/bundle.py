"""All artefacts that one command asks for, as bytes by file name, so that they can be written together.

Owns the artefacts' names and file names, and what becomes of one that a network does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import CodegenError, EthoscadeError, UnsupportedOperatorError
from .artifact import Artifact
from .c.options import DEFAULT, COptions

ARTEFACTS = ("tflite", "c", "mlf", "raw")


@dataclass(frozen=True, eq=False)
class Bundle:
    """`files` by their names in the output folder; `places` by artefact, "" for the folder itself; what was refused."""

    files: Mapping[str, bytes]
    places: Mapping[str, str]
    refused: Mapping[str, EthoscadeError]


def render(artifact: Artifact, artefacts: Sequence[str], options: COptions = DEFAULT) -> Bundle:
    """Every one of `artefacts` (of `ARTEFACTS`) that the network can be written as, and the errors of the others.

    `options` are those of C and of the Model Library Format.
    """
    files: dict[str, bytes] = {}
    places: dict[str, str] = {}
    refused: dict[str, EthoscadeError] = {}
    for artefact in artefacts:
        try:
            made = _render(artifact, artefact, options)
        except (CodegenError, UnsupportedOperatorError) as error:
            refused[artefact] = error
            continue
        places[artefact] = "" if artefact == "c" else next(iter(made))
        files.update(made)
    return Bundle(files, places, refused)


def _render(artifact: Artifact, artefact: str, options: COptions) -> dict[str, bytes]:
    # Writers are imported when they write: most commands ask for one of them.
    if artefact == "tflite":
        from . import tflite

        return {f"{artifact.name}_ethosu.tflite": tflite.write(artifact)}
    if artefact == "c":
        from . import c_source

        return c_source.contents(artifact, options)
    if artefact == "mlf":
        from . import mlf

        return {f"{artifact.name}.tar": mlf.archive([(artifact, options)])}
    from . import raw

    return {f"{artifact.name}.npz": raw.archive(artifact)}
