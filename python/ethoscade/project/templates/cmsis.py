"""A layer for a csolution of the CMSIS-Toolbox. Owns its texts; csolution, board and stream are the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..description import Description
from ..template import Template, driven, packaged, unbuilt

_DRIVER_PACK = "ARM::ethos-u-core-driver"
_DRIVER_COMPONENT = "ARM::Machine Learning:NPU Support:Ethos-U Driver&Generic"
_LIBRARY_PACK = "ARM::CMSIS-NN"
_LIBRARY_COMPONENT = "ARM::CMSIS:NN Lib"
_DRIVER = "    - ETHOSCADE_ETHOSU_DRIVER_H: <ethosu_driver.h>\n"


def _files(description: Description) -> Mapping[str, str]:
    sources = "\n".join(f"        - file: generated/{name}" for name in description.sources)
    packs, components = [], []
    if description.has_npu:
        packs.append(_DRIVER_PACK)
        components.append(f"{_DRIVER_COMPONENT} {description.accelerator.split('-')[1].upper()}")
    if description.cmsis_nn:
        packs.append(_LIBRARY_PACK)
        components.append(_LIBRARY_COMPONENT)
    words = {
        "packs": _listed("packs", "pack", packs) + _listed("components", "component", components),
        "driver": _DRIVER if description.has_npu else "",
        "files": sources,
    }
    return {
        **packaged("cmsis", ["network.clayer.yml", "README.md"], description, words),
        **driven(description, on_board=False),
    }


def _listed(name: str, item: str, values: Sequence[str]) -> str:
    lines = "".join(f"    - {item}: {value}\n" for value in values)
    return f"  {name}:\n{lines}\n" if lines else ""


CMSIS = Template(
    name="cmsis",
    summary="a layer for a csolution of the CMSIS-Toolbox",
    files=_files,
    build=unbuilt("it is a layer: add network.clayer.yml to a cproject and build that with cbuild, as README.md says"),
    start=unbuilt("name the serial port of your csolution's board, ethoscade.connect(DIR, port=...)"),
    building="it is a layer: name {folder}/network.clayer.yml under `layers:` of a cproject, and `cbuild` builds that",
    no_board="it is a layer: flash the csolution that it is part of",
)
