"""What is planned: buffers, gaps in their use, pools. Owns the types and what must hold within each of them."""

from __future__ import annotations

from ..errors import ConfigError
from ..util.arguments import check_fields, checked
from ..util.records import dataclass

_STEPS = range(-(1 << 63), 1 << 63)
_BYTES = range(1 << 60)


@dataclass(frozen=True)
class Gap:
    """Steps [lower, upper) in which a buffer keeps only the bytes [low, high) of `window`, or none."""

    lower: int
    upper: int
    window: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Refuses what are no steps and bytes."""
        check_fields(self, "gap: ")


@dataclass(frozen=True)
class Share:
    """Leave to overlap the buffer `name` when this one's offset less that one's lies in [low, high], in bytes.

    (0, 0), the default, is the same address: an elementwise operator that writes over its input.
    """

    name: str
    low: int = 0
    high: int = 0

    def __post_init__(self) -> None:
        """Refuses what is no name and no distances."""
        check_fields(self, "share: ")


@dataclass(frozen=True)
class Buffer:
    """Bytes that need a place while in use, in steps [lower, upper).

    Its address is a multiple of `alignment` bytes. `pools` names those that may hold it, the preferred one first; none
    means all, in their order. `offset` pins it in its first pool. `conflicts` names buffers that it must not overlap
    whatever the lifetimes say, `shares` those that it may overlap. `access` says who touches it and how, as pairs of a
    target and "ro" or "rw": only pools that grant that to all of them may hold it. Raises `ConfigError` for what
    cannot be.
    """

    name: str
    lower: int
    upper: int
    size_bytes: int
    alignment: int = 1
    pools: tuple[str, ...] = ()
    offset: int | None = None
    gaps: tuple[Gap, ...] = ()
    conflicts: tuple[str, ...] = ()
    shares: tuple[Share, ...] = ()
    access: tuple[tuple[str, str], ...] = ()

    @classmethod
    @checked()
    def constant(
        cls, name: str, size_bytes: int, alignment: int = 1, pools: tuple[str, ...] = (), readers: tuple[str, ...] = ()
    ) -> Buffer:
        """Bytes that hold the same all the time, such as weights in a parameter pool; `readers` are targets."""
        access = tuple((reader, "ro") for reader in readers)
        return cls(name, _STEPS.start, _STEPS.stop - 1, size_bytes, alignment, pools, access=access)

    def __post_init__(self) -> None:
        """Refuses what the planner's numbers cannot hold, while the name is still known."""
        check_fields(self, "buffer {}: ", self.name)
        for what, step in (("lower", self.lower), ("upper", self.upper)):
            if step not in _STEPS:
                raise ConfigError(f"buffer {self.name!r}: {what} {step} is not between -2^63 and 2^63 - 1")
        if self.lower > self.upper:
            raise ConfigError(f"buffer {self.name!r}: upper {self.upper} is before lower {self.lower}")
        for what, value in (("size", self.size_bytes), ("alignment", self.alignment), ("offset", self.offset or 0)):
            if value not in _BYTES:
                raise ConfigError(f"buffer {self.name!r}: {what} {value} is not between 0 and 2^60 - 1")
        if self.alignment == 0:
            raise ConfigError(f"buffer {self.name!r}: alignment 0 is below the least, 1")
        self._check_gaps()
        for share in self.shares:
            if not -_BYTES.stop < share.low <= share.high < _BYTES.stop:
                raise ConfigError(
                    f"buffer {self.name!r}: shares {share.low}..{share.high} with {share.name!r}, which is reversed or "
                    "beyond 2^60"
                )
        _check_access(f"buffer {self.name!r}", self.access)

    def _check_gaps(self) -> None:
        free_from = self.lower
        for gap in sorted(self.gaps, key=lambda gap: (gap.lower, gap.upper)):
            if not free_from <= gap.lower <= gap.upper <= self.upper:
                raise ConfigError(
                    f"buffer {self.name!r}: gap {gap.lower}-{gap.upper} is reversed, meets another or leaves "
                    f"{self.lower}-{self.upper}"
                )
            if gap.window is not None and not 0 <= gap.window[0] <= gap.window[1] <= self.size_bytes:
                raise ConfigError(
                    f"buffer {self.name!r}: gap {gap.lower}-{gap.upper} keeps bytes {gap.window[0]}:{gap.window[1]} "
                    f"of {self.size_bytes}"
                )
            free_from = gap.upper

    @property
    def is_constant(self) -> bool:
        """Whether it is in use at all steps there are."""
        return self.lower == _STEPS.start and self.upper == _STEPS.stop - 1

    @property
    def ever_in_use(self) -> bool:
        """Whether any byte of it is in use at any step."""
        away = sum(gap.upper - gap.lower for gap in self.gaps)
        kept = any(gap.window and gap.window[0] < gap.window[1] and gap.lower < gap.upper for gap in self.gaps)
        return self.size_bytes > 0 and (kept or self.upper - self.lower > away)


@dataclass(frozen=True)
class Pool:
    """A memory. `size_bytes` is None for as much as it takes; alignments count from address 0, not `base_address`.

    `access` gives each target that reaches it "ro" or "rw"; when it is empty, all may read and write.
    """

    name: str
    size_bytes: int | None = None
    alignment: int = 1
    base_address: int = 0
    access: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Refuses what the planner's numbers cannot hold, while the name is still known."""
        check_fields(self, "pool {}: ", self.name)
        values = (("size", self.size_bytes or 0), ("alignment", self.alignment), ("base address", self.base_address))
        for what, value in values:
            if value not in _BYTES:
                raise ConfigError(f"pool {self.name!r}: {what} {value} is not between 0 and 2^60 - 1")
        if self.alignment == 0:
            raise ConfigError(f"pool {self.name!r}: alignment 0 is below the least, 1")
        _check_access(f"pool {self.name!r}", self.access)

    @checked()
    def grants(self, access: tuple[tuple[str, str], ...]) -> bool:
        """Whether every target of `access` may do here what it wants to."""
        granted = dict(self.access)
        return not granted or all(granted.get(target, "") in (right, "rw") for target, right in access)


def _check_access(whose: str, access: tuple[tuple[str, str], ...]) -> None:
    for target, right in access:
        if right not in ("ro", "rw"):
            raise ConfigError(f"{whose}: access {right!r} of target {target!r} is neither 'ro' nor 'rw'")
