"""What a command lets people see while it works: a line of progress on a terminal, log messages where asked for.

Owns when the line is there and that nothing of it stays. How far work is, is the library's to say.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..util.progress import WorkStage

AFTER_SECONDS = 1.0
"""How long work may take without a word."""
_PAUSE_SECONDS = 0.1
_BAR = 24


@dataclass
class ProgressLine:
    """A line on stderr that says how far work is: drawn again while it lasts, gone when it is cleared."""

    name: str = ""
    _began: float = field(default_factory=time.monotonic)
    _drawn: float = 0.0
    _width: int = 0

    def __call__(self, step: WorkStage) -> None:
        """Draw it, if work has taken a second and the last drawing was not just now."""
        now = time.monotonic()
        if now - self._began < AFTER_SECONDS or now - self._drawn < _PAUSE_SECONDS:
            return
        self._drawn = now
        done = "#" * int(_BAR * step.fraction)
        # A search with a gap may end at any time, so that a bar would say nothing.
        part = f"[{done:<{_BAR}}] {100 * step.fraction:3.0f} %" if step.gap is None else str(step.gap)
        text = f"{self.name}{step} {part}"
        import shutil

        # A line that reached the edge would go on in the next one, where nobody could take it back.
        text = text[: max(shutil.get_terminal_size().columns - 1, 1)]
        _write(f"\r{text:<{self._width}}")
        self._width = len(text)

    def clear(self) -> None:
        """Leave nothing of it."""
        if self._width:
            _write(f"\r{'':<{self._width}}\r")
            self._width = 0


@contextlib.contextmanager
def working(args: argparse.Namespace, name: str = "") -> Iterator[ProgressLine | None]:
    """What long work is to be given as `progress`: a line about `name`, None without a terminal.

    The line is gone when the work ends, however it does.
    """
    if getattr(args, "quiet", False) or not _is_terminal():
        yield None
        return
    line = ProgressLine(f"{name}: " if name else "")
    handlers = [one for one in logging.getLogger(_PACKAGE).handlers if isinstance(one, _Log)]
    for handler in handlers:
        handler.line = line
    try:
        yield line
    finally:
        line.clear()
        for handler in handlers:
            handler.line = None


@contextlib.contextmanager
def logged(args: argparse.Namespace) -> Iterator[None]:
    """The package's messages on stderr for as long as a command runs: stages with -v, all that there is with -vv."""
    wanted = getattr(args, "verbose", 0)
    if not wanted:
        yield
        return
    logger, handler = logging.getLogger(_PACKAGE), _Log()
    before = logger.level
    logger.setLevel(logging.INFO if wanted == 1 else logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


_PACKAGE = __package__.partition(".")[0]


class _Log(logging.Handler):
    """Messages on stderr, each a line of its own."""

    line: ProgressLine | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.line is not None:
            self.line.clear()
        _write(f"{' '.join(record.getMessage().splitlines())}\n")


def _is_terminal() -> bool:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return sys.stderr.isatty()
    return False


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()
