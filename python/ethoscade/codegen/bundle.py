"""All artefacts that one command asks for, as bytes by file name, so that they can be written together.

Owns the artefacts' names and file names, and what becomes of one that a network does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..errors import CodegenError, EthoscadeError, UnsupportedOperatorError
from ..util.records import dataclass
from .artifact import Artifact
from .c.options import DEFAULT, COptions, Networks

ARTEFACTS = ("tflite", "tflite-c", "c", "mlf", "raw")
TOGETHER = ("c", "mlf")
"""Those that several networks may be written as together."""

ALL = "networks"
"""What files about several networks are called."""


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
    return _rendered({artefact: partial(_render, artifact, artefact, options) for artefact in artefacts})


def render_many(networks: Networks, artefacts: Sequence[str], name: str) -> Bundle:
    """The same of several networks, for artefacts in `TOGETHER`; what is one file is called `name`."""
    return _rendered({artefact: partial(_render_many, networks, artefact, name) for artefact in artefacts})


def _rendered(makers: Mapping[str, Callable[[], dict[str, bytes]]]) -> Bundle:
    files: dict[str, bytes] = {}
    places: dict[str, str] = {}
    refused: dict[str, EthoscadeError] = {}
    for artefact, make in makers.items():
        try:
            made = make()
        except (CodegenError, UnsupportedOperatorError) as error:
            refused[artefact] = error
            continue
        places[artefact] = "" if artefact == "c" else next(iter(made))
        files.update(made)
    return Bundle(files, places, refused)


# Writers are imported when they write: most commands ask for one of them.


def _render(artifact: Artifact, artefact: str, options: COptions) -> dict[str, bytes]:
    if artefact in TOGETHER:
        return _render_many([(artifact, options)], artefact, artifact.name)
    if artefact == "tflite":
        from . import tflite

        return {f"{artifact.name}_ethosu.tflite": tflite.write(artifact)}
    if artefact == "tflite-c":
        return tflite_c(artifact, options)
    from . import raw

    return {f"{artifact.name}.npz": raw.archive(artifact)}


def tflite_c(artifact: Artifact, options: COptions) -> dict[str, bytes]:
    """The .tflite for firmware that links it: a header, and the bytes as C or by assembler."""
    from . import c_source, tflite
    from .c import model_array

    name = f"{artifact.name}_ethosu.tflite"
    return model_array.files(tflite.write(artifact), name, c_source.module_name(artifact, options), options)


def _render_many(networks: Networks, artefact: str, name: str) -> dict[str, bytes]:
    if artefact == "c":
        from . import c_source

        return c_source.all_contents(networks)
    from . import mlf

    return {f"{name}.tar": mlf.archive(networks)}
