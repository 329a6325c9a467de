"""What a run returns: the numbers, their names in C and what they mean.

Owns the table and the enum and function that are written from it. Numbers are the same for all networks and stay what
they are.
"""

from __future__ import annotations

from ...util.records import dataclass


@dataclass(frozen=True)
class Status:
    """One value of the enum."""

    number: int
    name: str
    meaning: str


OK = Status(0, "OK", "done")
RUNNING = Status(1, "RUNNING", "a run that was begun goes on")
POINTER_MISSING = Status(-1, "POINTER_MISSING", "a pointer is NULL")
NO_DRIVER = Status(-2, "NO_DRIVER", "no NPU driver could be reserved")
NPU_FAILED = Status(-3, "NPU_FAILED", "the NPU driver reported an error, or a refusal that it does not tell from one")
MISALIGNED = Status(-4, "MISALIGNED", "memory does not begin with a cache line")
TOO_SMALL = Status(-5, "TOO_SMALL", "memory is smaller than the network needs")
WRONG_NPU = Status(-6, "WRONG_NPU", "the NPU is not the one that the network was compiled for")
KERNEL_FAILED = Status(-7, "KERNEL_FAILED", "a library's function for an operator on the CPU reported an error")
NPU_REFUSED = Status(-8, "NPU_REFUSED", "the NPU driver refused the program, which did not begin")

STATUSES = (
    OK, RUNNING, POINTER_MISSING, NO_DRIVER, NPU_FAILED, MISALIGNED, TOO_SMALL, WRONG_NPU, KERNEL_FAILED, NPU_REFUSED
)  # fmt: skip


def describe(number: int) -> str:
    """A status with its name and meaning, for messages."""
    for status in STATUSES:
        if status.number == number:
            return f"{number} ({status.name}: {status.meaning})"
    return str(number)


def declaration(prefix: str) -> str:
    """The enum and its function."""
    macro = prefix.upper()
    values = ",\n".join(f"  {macro}_{status.name} = {status.number}" for status in STATUSES)
    told = "\n".join(f" *   {status.number:2d}  {status.name:15s}  {status.meaning}" for status in STATUSES)
    return (
        f"/* What a run returns; errors are negative.\n{told} */\nenum {prefix}_status {{\n{values}\n}};\n\n"
        f'/* The name of a status, such as "TOO_SMALL"; "UNKNOWN" for other numbers. */\n'
        f"const char* {prefix}_status_name(int32_t status);"
    )


def definition(prefix: str) -> str:
    """The function that names them."""
    macro = prefix.upper()
    cases = "\n".join(f'    case {macro}_{status.name}:\n      return "{status.name}";' for status in STATUSES)
    return (
        f"const char* {prefix}_status_name(int32_t status)\n{{\n  switch (status) {{\n{cases}\n"
        f'    default:\n      return "UNKNOWN";\n  }}\n}}'
    )
