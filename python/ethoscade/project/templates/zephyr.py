"""A Zephyr module. Owns its texts; the application, its board and its stream are the user's."""

from __future__ import annotations

from collections.abc import Mapping

from ..description import Description
from ..template import Template, driven, packaged, unbuilt

_DRIVER = '    "ETHOSCADE_ETHOSU_DRIVER_H=<ethosu_driver.h>"\n'
_DEPENDS = "\tdepends on ETHOS_U\n"
# Groups of Zephyr's modules/cmsis-nn/Kconfig: the first two call the third.
_LIBRARY = "\tdepends on CMSIS_NN\n" + "".join(
    f"\tselect CMSIS_NN_{group}\n" for group in ("CONVOLUTION", "FULLYCONNECTED", "NNSUPPORT")
)
_CONFIG = "It calls CMSIS-NN: `CONFIG_CMSIS_NN=y` as well, with Zephyr's module cmsis-nn in the west workspace.\n\n"


def _files(description: Description) -> Mapping[str, str]:
    words = {
        "files": "\n".join(f'    "${{here}}/generated/{name}"' for name in description.sources),
        "library": _CONFIG if description.cmsis_nn else "",
        "driver": _DRIVER if description.has_npu else "",
        "depends": (_DEPENDS if description.has_npu else "") + (_LIBRARY if description.cmsis_nn else ""),
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
    building="it is a module: `west build -b BOARD app -- -DZEPHYR_EXTRA_MODULES={folder}` builds your application",
    no_board="it is a module: flash the application that it is part of, with west flash",
)
