"""A Zephyr module. Owns its texts; the application, its board and its stream are the user's."""

from __future__ import annotations

from collections.abc import Mapping

from ..description import Description
from ..template import Template, driven, packaged, unbuilt

_DRIVER = '    "ETHOSCADE_ETHOSU_DRIVER_H=<ethosu_driver.h>"\n'
_DEPENDS = "\tdepends on ETHOS_U\n"


def _files(description: Description) -> Mapping[str, str]:
    words = {
        "files": "\n".join(f'    "${{here}}/generated/{name}"' for name in description.sources),
        "driver": _DRIVER if description.has_npu else "",
        "depends": _DEPENDS if description.has_npu else "",
    }
    texts = packaged("zephyr", ["module.yml", "CMakeLists.txt", "Kconfig", "README.md"], description, words)
    return {
        "README.md": texts.pop("README.md"),
        **{f"zephyr/{name}": text for name, text in texts.items()},
        **driven(description, on_board=False),
    }


ZEPHYR = Template(
    name="zephyr",
    summary="a Zephyr module",
    files=_files,
    build=unbuilt("it is a module: build a Zephyr application with -DZEPHYR_EXTRA_MODULES, as README.md says"),
    start=unbuilt("name the serial port of your application's board, ethoscade.connect(DIR, port=...)"),
    no_board="it is a module: flash the application that it is part of, with west flash",
)
