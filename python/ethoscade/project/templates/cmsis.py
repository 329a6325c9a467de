"""A layer for a csolution of the CMSIS-Toolbox. Owns its texts; csolution, board and stream are the user's."""

from __future__ import annotations

from collections.abc import Mapping

from ..description import Description
from ..template import Template, driven, packaged, unbuilt

_PACKS = """  packs:
    - pack: ARM::ethos-u-core-driver

  components:
    - component: ARM::Machine Learning:NPU Support:Ethos-U Driver&Generic @driver@

"""
_DRIVER = "    - ETHOSCADE_ETHOSU_DRIVER_H: <ethosu_driver.h>\n"


def _files(description: Description) -> Mapping[str, str]:
    sources = "\n".join(f"        - file: generated/{name}" for name in description.sources)
    product = description.accelerator.split("-")[1].upper() if description.has_npu else ""
    words = {
        "packs": _PACKS.replace("@driver@", product) if description.has_npu else "",
        "driver": _DRIVER if description.has_npu else "",
        "files": sources,
    }
    return {
        **packaged("cmsis", ["network.clayer.yml", "README.md"], description, words),
        **driven(description, on_board=False),
    }


CMSIS = Template(
    name="cmsis",
    summary="a layer for a csolution of the CMSIS-Toolbox",
    files=_files,
    build=unbuilt("it is a layer: add network.clayer.yml to a cproject and build that with cbuild, as README.md says"),
    start=unbuilt("name the serial port of your csolution's board, ethoscade.connect(DIR, port=...)"),
    no_board="it is a layer: flash the csolution that it is part of",
)
