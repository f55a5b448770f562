"""What the CPU of this machine supports, as `/proc/cpuinfo` lists it."""

from __future__ import annotations

from pathlib import Path

_BFLOAT16 = ("amx_bf16", "avx512_bf16")


def read_flags() -> frozenset[str]:
    """Returns the CPU's flags; empty if the system does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


def find_bfloat16() -> str | None:
    """Returns the flag of the instructions that multiply bfloat16, or None."""
    flags = read_flags()
    return next((flag for flag in _BFLOAT16 if flag in flags), None)
