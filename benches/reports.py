"""How large reports are, how long they take to make, and until a browser has drawn them.

    python benches/reports.py [MODEL ...]

Models are names or paths as for the other benches; without one, a network of 150 operators that is made here as well.
Opened means: from the request to the end of two drawn frames after the page's scripts have run, in headless Chromium.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import ethoscade
from browser import BROWSER, NO_BROWSER, Browser, browser
from ethoscade import Compiled
from ethoscade.testing import ModelBuilder
from harness import named_models

OPERATORS = 150
TIMES = 3


def deep(operators: int) -> bytes:
    """So many convolutions, by turns over channels and over pixels."""
    builder = ModelBuilder("deep")
    x = builder.input((1, 64, 64, 16))
    for number in range(operators):
        x = builder.depthwise(x, 3) if number % 2 else builder.conv2d(x, 16, 1)
    return builder.build()


def opened_ms(tab: Browser, page: Path) -> float:
    """The least of some times."""
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        tab.open(page)
        times.append(1000 * (time.perf_counter() - began))
    return min(times)


def measure(tab: Browser, name: str, made: Compiled, folder: Path) -> None:
    page = folder / "report.html"
    began = time.perf_counter()
    text = made.report(page)
    seconds = time.perf_counter() - began
    counts = (len(made.operators), len(made.program.steps), len(made.program.buffers))
    told = " ".join(f"{count:>9}" for count in counts)
    print(f"{name:<36} {told} {len(text) / 1024:>9.0f} {seconds:>7.2f} {opened_ms(tab, page):>10.0f}", flush=True)


def main() -> None:
    if BROWSER is None:
        sys.exit(NO_BROWSER)
    print(
        f"{'network':<36} {'operators':>9} {'steps':>9} {'buffers':>9} {'page KiB':>9} {'made s':>7} {'opened ms':>10}"
    )
    with tempfile.TemporaryDirectory() as folder, browser() as tab:
        for optimise in ("performance", "size"):
            made = ethoscade.compile(deep(OPERATORS), optimise=optimise)
            measure(tab, f"{OPERATORS} operators, {optimise}", made, Path(folder))
        for path in named_models(sys.argv[1:]):
            measure(tab, path.stem, ethoscade.compile(path, optimise="size"), Path(folder))


if __name__ == "__main__":
    main()
