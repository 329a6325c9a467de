"""The templates that come with ethoscade, by name."""

from __future__ import annotations

from ..template import Template
from . import host, qemu

TEMPLATES: dict[str, Template] = {template.name: template for template in (host.TEMPLATE, qemu.TEMPLATE)}
