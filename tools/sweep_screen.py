"""Picture the page of a sweep in a browser: docs/sweep-page.png.

    python tools/sweep_screen.py

The networks are of `ethoscade.testing`, the page is what `ethoscade sweep --page` writes. Needs Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from browser import browser
from ethoscade.__main__ import main as ethoscade
from ethoscade.testing import (
    inception_modules,
    inverted_residuals,
    keyword_spotting,
    mobilenet_v1,
    residual_network,
    shuffle_units,
)

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "sweep-page.png"
WIDTH, HEIGHT = 1200, 1500


def networks() -> dict[str, bytes]:
    """Small networks of several kinds."""
    found = {f"mobilenet_v1_{alpha}_96": mobilenet_v1(alpha, 96) for alpha in (0.25, 0.5)}
    found |= {f"keywords_{channels}": keyword_spotting(channels) for channels in (32, 64, 128)}
    found |= {f"residual_{channels}": residual_network(3, channels) for channels in (16, 32)}
    found |= {"inverted_residuals": inverted_residuals(), "shuffle_units": shuffle_units()}
    return {**found, "inception_modules": inception_modules()}


def main() -> None:
    """Sweeps them, and takes the picture."""
    with tempfile.TemporaryDirectory() as scratch, browser() as tab:
        folder = Path(scratch)
        for name, data in networks().items():
            (folder / f"{name}.tflite").write_bytes(data)
        page = folder / "sweep.html"
        status = ethoscade(
            ["sweep", str(folder), "--output", str(folder / "rows.csv"), "--page", str(page), "--latency", "3"]
        )
        assert status == 0
        tab.resize(WIDTH, HEIGHT)
        tab.open(page)
        tab.screenshot(PICTURE)
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
