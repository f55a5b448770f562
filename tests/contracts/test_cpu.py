"""The flags of the CPU."""

import pytest

from contracts import cpu


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("fpu avx2 fma", None),
        ("fpu avx512f avx512_bf16", "avx512_bf16"),
        ("avx512_bf16 amx_bf16 amx_tile", "amx_bf16"),
    ],
)
def test_bfloat16_is_found_in_the_flags(monkeypatch, flags, expected):
    text = f"model name\t: CPU\nflags\t\t: {flags}\nmodel name\t: CPU\n"
    monkeypatch.setattr(cpu.Path, "read_text", lambda *_, **__: text)
    assert cpu.find_bfloat16() == expected
    assert cpu.read_flags() == set(flags.split())


def test_system_without_the_list_has_no_flags(monkeypatch):
    def read(*_):
        raise FileNotFoundError

    monkeypatch.setattr(cpu.Path, "read_text", read)
    assert cpu.read_flags() == frozenset()
    assert cpu.find_bfloat16() is None
