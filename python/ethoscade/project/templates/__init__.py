"""The templates that come with ethoscade, by name."""

from __future__ import annotations

from ..template import Template
from .cmsis import CMSIS
from .host import HOST
from .qemu import QEMU
from .zephyr import ZEPHYR

TEMPLATES: dict[str, Template] = {template.name: template for template in (HOST, QEMU, CMSIS, ZEPHYR)}
