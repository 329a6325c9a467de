"""Makes the pictures of pages that the documents show: `docs/screens/*.png`, of a network that is made here.

    python tools/screens.py

Needs Chromium and matplotlib. Owns which parts of a page are shown, not what is on them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import ethoscade
from browser import BROWSER, NO_BROWSER, Browser, browser
from ethoscade.ir import Activation
from ethoscade.page.pictures import require
from ethoscade.report.plot import NamedCurve, frontiers
from ethoscade.testing import ModelBuilder, Value

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "screens"
BUDGET = "176KiB"
WIDTH, MOST_HEIGHT = 1120, 900


def network() -> bytes:
    """Inverted residuals on an image, and two heads: one of them is resized in a way that the NPU has not."""
    b = ModelBuilder("two_heads")
    x = b.conv2d(b.input((1, 112, 112, 3), name="image"), 16, 3, stride=2, activation=Activation.RELU6, name="stem")
    for number, (channels, stride) in enumerate(((16, 1), (24, 2), (24, 1), (40, 2), (40, 1), (40, 1)), 1):
        x = _block(b, x, f"block_{number}", channels, stride)
    heat = b.conv2d(b.resize_nearest(x, (25, 25), name="heat/resize"), 2, 1, name="heat")
    classes = b.fully_connected(b.mean(x, name="classes/mean"), 10, name="classes/dense")
    b.output(heat, b.softmax(classes, name="classes"))
    return b.build()


def _block(b: ModelBuilder, x: Value, name: str, channels: int, stride: int) -> Value:
    y = b.conv2d(x, x.shape[3] * 6, 1, activation=Activation.RELU6, name=f"{name}/expand")
    y = b.depthwise(y, 3, stride=stride, activation=Activation.RELU6, name=f"{name}/depthwise")
    y = b.conv2d(y, channels, 1, name=f"{name}/project")
    return b.add(x, y, name=f"{name}/add") if x.shape == y.shape else y


def show(tab: Browser, selector: str, name: str) -> None:
    """The element that `selector` names, as `name`.png."""
    tab.settle()
    box = tab.box(selector)
    box["height"] = min(box["height"], MOST_HEIGHT)
    tab.screenshot(FOLDER / f"{name}.png", box)


def report(tab: Browser, page: Path) -> None:
    """The report's head and chapters, and a byte of the map that the cursor is on."""
    tab.resize(WIDTH, 800)
    tab.prefer("dark")
    tab.open(page)
    show(tab, "#map", "map-dark")
    tab.prefer("light")
    tab.open(page)
    tab.screenshot(FOLDER / "report.png")
    show(tab, "#curve", "frontier")
    show(tab, "#bounds", "cycles")
    show(tab, "#operators", "operators")
    tab.run("document.querySelector('#graph .scroll').scrollTop = 1e6")
    show(tab, "#graph", "network")
    # By keys, as a screenshot makes the pointer leave: from the middle of the peak's step four times ten steps to the
    # left, and three times a tenth of the arena up.
    tab.run("document.querySelector('#map canvas').focus()")
    for key, code, times in (("ArrowLeft", 37, 4), ("ArrowUp", 38, 3)):
        for _ in range(times):
            tab.press(key, code, shift=True)
    show(tab, "#map", "map-byte")


def main() -> None:
    if BROWSER is None:
        sys.exit(NO_BROWSER)
    require()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser() as tab:
        model, page = Path(folder) / "two_heads.tflite", Path(folder) / "report.html"
        model.write_bytes(network())
        prepared = ethoscade.prepare(model)
        made = prepared.compile(sram=BUDGET)
        made.report(page, frontier=prepared.frontier())
        report(tab, page)
    made.plot(FOLDER / "arena.png")
    accelerators = ("ethos-u55-128", "ethos-u55-256", "ethos-u65-256")
    curves = [NamedCurve(name, ethoscade.frontier(network(), accelerator=name)) for name in accelerators]
    frontiers(curves, "two_heads", FOLDER / "frontiers.png")
    for path in sorted(FOLDER.glob("*.png")):
        print(f"{path.stat().st_size / 1024:6.1f} KiB  {path.relative_to(FOLDER.parents[1])}")


if __name__ == "__main__":
    main()
