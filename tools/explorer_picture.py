"""Takes the picture of docs/traces.md: a small network in Model Explorer, all layers open, cycles over the nodes.

    python tools/explorer_picture.py

Needs ai-edge-model-explorer (extra `explorer`) and Chromium. Owns the network and what is clicked; writes
docs/model-explorer.png. The picture is drawn by others' programs and is not the same to the byte every time.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import ethoscade  # noqa: E402
from browser import Browser, browser  # noqa: E402
from ethoscade.__main__ import main  # noqa: E402
from ethoscade.ir import Activation  # noqa: E402
from ethoscade.testing import ModelBuilder  # noqa: E402

PICTURE = ROOT / "docs" / "model-explorer.png"
PATIENCE = 60


def network() -> bytes:
    """Three convolutions that become a cascade, a resize on the CPU, and a classifier."""
    b = ModelBuilder("small")
    x = b.input((1, 12, 12, 3), name="image")
    for name, channels, stride in (("conv_1", 16, 1), ("conv_2", 16, 1), ("conv_3", 4, 2)):
        x = b.conv2d(x, channels, 3, stride=stride, name=name, activation=Activation.RELU)
    b.fully_connected(b.mean(b.resize_nearest(x, (7, 5), name="resize")), 10, name="classes")
    return b.build()


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Model Explorer's own server, until its address answers."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    options = ["--no_open_in_browser", "--skip_health_check", "--extensions=ethoscade.explorer", f"--port={port}"]
    child = subprocess.Popen([sys.executable, "-m", "model_explorer", *options], stdout=subprocess.DEVNULL)
    address = f"http://localhost:{port}/"
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(address).close()
                break
            except urllib.error.URLError:
                if time.monotonic() > deadline or child.poll() is not None:
                    raise
                time.sleep(0.2)
        yield address
    finally:
        child.terminate()
        child.wait()


def wait(tab: Browser, seconds: float) -> None:
    """Lets the page work; its drawing tells nobody when it is done."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        tab.run("1")
        time.sleep(0.1)


def take(folder: Path) -> None:
    """Compiles, explores, opens and takes the picture."""
    artifact = ethoscade.compile(network(), sram=2240).save(folder / "small.tflite")
    main(["explore", str(artifact), "-o", str(folder)])
    numbers = [str(folder / f"small_{name}.json") for name in ("bytes_moved", "live_bytes", "cycles")]
    wanted = {"models": [{"url": str(folder / "small_graph.json")}], "nodeData": numbers}
    with server() as address, browser() as tab:
        tab.resize(1280, 760)
        tab.ask("Page.navigate", url=f"{address}?data={urllib.parse.quote(json.dumps(wanted))}")
        wait(tab, 12)
        x, y = tab.run(
            "(() => { const found = [...document.querySelectorAll('mat-icon')];"
            " const box = found.find((e) => e.textContent === 'unfold_more_double').getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        tab.point(x, y)
        wait(tab, 0.5)
        for what in ("mousePressed", "mouseReleased"):
            tab.ask("Input.dispatchMouseEvent", type=what, x=x, y=y, button="left", clickCount=1)
        wait(tab, 8)
        tab.point(640, 740)
        wait(tab, 1)
        tab.screenshot(PICTURE)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        take(Path(scratch))
    print(f"wrote {PICTURE.relative_to(ROOT)}")
