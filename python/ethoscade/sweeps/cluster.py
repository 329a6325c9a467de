"""Workers of other machines: an executor of a Dask scheduler. The only file that knows Dask.

Dask itself asks again what a lost worker was asked. Needs the extra `dask`; workers need the same ethoscade.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

from ..errors import ConfigError

_PATIENCE_SECONDS = 10


@contextlib.contextmanager
def cluster(address: str) -> Iterator[tuple[Executor, int]]:
    """An executor of the scheduler at an address such as "tcp://10.0.0.1:8786", and how many calls it runs at once.

    Raises `ConfigError` where Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ConfigError('a cluster needs Dask: pip install "ethoscade[dask]"') from None

    class Closing(Client):  # type: ignore[misc]
        """A client that fails to start is closed at once: closed by the garbage collector it may wait for itself."""

        def start(self, **options: Any) -> None:
            try:
                super().start(**options)
            except BaseException:
                self.close()
                raise

    try:
        client = Closing(address, timeout=_PATIENCE_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"no Dask scheduler answers at '{address}': {' '.join(str(error).split())}") from error
    with client:
        yield client.get_executor(), sum(client.nthreads().values())
