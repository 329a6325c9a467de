"""A headless Chromium driven over its DevTools protocol, by two pipes: no port, no further package.

Owns the process and the messages; what is looked at is the tests' business. `BROWSER` says where Chromium is, if it is.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
NO_BROWSER = "there is no Chromium on the path (Debian, Ubuntu: chromium)"

_PATIENCE = 60
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
    "--force-color-profile=srgb",
)  # fmt: skip
# Chromium reads commands from descriptor 3 and writes to 4, wherever the pipes happen to end. The ends are moved out of
# the way first, as one of them may lie where the other one goes.
_WIRED = """
import os, sys
ends = [os.dup2(int(end), 100 + place) for place, end in enumerate(sys.argv[1:3])]
for place, end in enumerate(ends):
    os.dup2(end, 3 + place)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One tab. Whatever its console and its log complain of is kept in `complaints`, every request in `requests`."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._out, self._in, self._rest, self._number = to_browser, from_browser, b"", 0
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._session: str | None = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.resize(1200, 900)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command's result. Raises `RuntimeError` with what the browser says against it."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, path: Path) -> None:
        """Loads a file, until its scripts have run."""
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while (event := self._next()).get("method") != "Page.loadEventFired":
            self._note(event)
        self.settle()

    def settle(self) -> None:
        """Waits for two frames, in which observers of sizes have been called."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def run(self, expression: str) -> Any:
        """A JavaScript expression's value, waited for. Raises `RuntimeError` where it throws."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"].get("exception", {}).get("description", found)))
        return found["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        """Sets the size of the window's inside, in pixels."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """What the system prefers: "light" or "dark"."""
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def point(self, x: float, y: float) -> None:
        """Moves the pointer."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        """Clicks in the middle of an element, as a person does."""
        x, y = self.middle(selector)
        for what in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=what, x=x, y=y, button="left", clickCount=1)

    def middle(self, selector: str) -> tuple[float, float]:
        """Where an element's middle is in the window, after it was scrolled there."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return box[0], box[1]

    def press(self, key: str, code: int, shift: bool = False) -> None:
        """Presses and releases a key, by its name and its Windows key code."""
        modifiers = 8 if shift else 0
        for what in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent", type=what, key=key, code=key, windowsVirtualKeyCode=code, modifiers=modifiers
            )

    def screenshot(self, path: Path, clip: Mapping[str, float] | None = None) -> None:
        """A PNG of the window, or of a box of the page: x, y, width, height in pixels."""
        more: dict[str, Any] = {"clip": {**clip, "scale": 1}, "captureBeyondViewport": True} if clip else {}
        data = self.ask("Page.captureScreenshot", format="png", **more)["data"]
        path.write_bytes(base64.b64decode(data))

    def box(self, selector: str) -> dict[str, float]:
        """An element's box in the page, for a screenshot."""
        found: dict[str, float] = self.run(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height}; })()"
        )
        return found

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], _PATIENCE)[0]:
                raise RuntimeError(f"the browser has said nothing for {_PATIENCE} s")
            more = os.read(self._in, 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def _note(self, event: dict[str, Any]) -> None:
        given = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(given["exceptionDetails"].get("exception", {}).get("description")))
        elif event.get("method") == "Log.entryAdded" and given["entry"]["level"] in ("warning", "error"):
            self.complaints.append(given["entry"]["text"])
        elif event.get("method") == "Runtime.consoleAPICalled" and given["type"] in ("warning", "error", "assert"):
            self.complaints.append(str([one.get("value") for one in given["args"]]))
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own, both gone afterwards."""
    assert BROWSER is not None, NO_BROWSER
    read_end, to_browser = os.pipe()
    from_browser, write_end = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _WIRED,
                str(read_end),
                str(write_end),
                BROWSER,
                *_FLAGS,
                f"--user-data-dir={profile}",
            ],
            pass_fds=(read_end, write_end),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_end)
        os.close(write_end)
        try:
            yield Browser(to_browser, from_browser)
        finally:
            os.close(to_browser)
            os.close(from_browser)
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
