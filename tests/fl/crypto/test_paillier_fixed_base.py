"""Many powers of one base: equal to pow, whatever the exponents, the comb and the processes."""

from __future__ import annotations

import doctest
import math
import secrets
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput

pytest.importorskip("gmpy2")
pytest.importorskip("phe")

from privplan.fl.crypto.paillier import fixed_base, keys
from privplan.fl.crypto.paillier.fixed_base import Comb, Shape
from privplan.fl.crypto.paillier.processes import Workers

from ...cases import for_each

PRIVATE = keys.generate(256, small=True)
PUBLIC = PRIVATE.public
N = int(PUBLIC.n)
TINY = keys.PrivateKey(5, 7, small=True).public

EDGES = [0, 1, -1, 2, -2, 3, N - 1, 1 - N, N - 2, 2 - N, N // 2, -(N // 2), 1 << 255, -(1 << 255)]


def unit() -> int:
    return int(PRIVATE.encrypt_many([secrets.randbelow(N)])[0])


def plainly(base: int, exponent: int, plaintext: int = 0) -> int:
    """Return the same by Python's own power."""
    return int(pow(base, exponent, N * N)) * (1 + plaintext * N) % (N * N)


def test_examples() -> None:
    assert doctest.testmod(fixed_base) == (0, 2)


@settings(deadline=None, max_examples=60)
@given(
    exponents=st.lists(st.integers(1 - N, N - 1), max_size=12),
    base=st.integers(0, N - 1),
    plaintext=st.integers(1 - N, N - 1),
)
def test_powers_are_those_of_pow(exponents: list[int], base: int, plaintext: int) -> None:
    (encrypted,) = PRIVATE.encrypt_many([base])
    raised = fixed_base.powers(PUBLIC, encrypted, exponents, [plaintext] * len(exponents))
    assert raised == [plainly(encrypted, one, plaintext) for one in exponents]


def test_exponents_and_bases_at_the_edges() -> None:
    assert fixed_base.powers(PUBLIC, unit(), []) == []
    for base in (unit(), 1, N + 1, N - 1, N * N - 1, 2, N * N - 2):
        assert fixed_base.powers(PUBLIC, base, EDGES) == [plainly(base, one) for one in EDGES]


def test_every_power_of_units_of_a_tiny_key() -> None:
    """Of every seventh of its 840 units."""
    n = int(TINY.n)
    exponents = list(range(1 - n, n))
    units = [one for one in range(n * n) if math.gcd(one, n) == 1]
    for base in units[::7]:
        expected = [int(pow(base, one, n * n)) for one in exponents]
        assert fixed_base.powers(TINY, base, exponents) == expected


@for_each("teeth", range(1, 9))
@for_each("groups", [1, 2, 3, 4, 5, 7])
def test_every_comb_gives_the_same(teeth: int, groups: int) -> None:
    base, comb = unit(), Shape(teeth, groups, -(-256 // (teeth * groups)))
    own = Comb(base, N, comb)
    for exponent in EDGES:
        assert own.power(exponent, 5) == plainly(base, exponent, 5)


def test_the_result_encrypts_a_multiple() -> None:
    (base,) = PRIVATE.encrypt_many([7])
    raised = fixed_base.powers(PUBLIC, base, [3, -3], [100, 100])
    assert PRIVATE.decrypt_many(raised) == [121, 79]


def test_processes_give_the_same() -> None:
    base = unit()
    exponents = [secrets.randbelow(N) for _ in range(5)]
    expected = fixed_base.powers(PUBLIC, base, exponents, exponents)
    assert fixed_base.powers(PUBLIC, base, exponents, exponents, Workers(2)) == expected


def test_the_number_of_operations_does_not_depend_on_the_exponent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many rows, squarings and entries for 0 as for the largest, none of them a short number."""
    seen: list[tuple[Any, ...]] = []
    product = fixed_base.product

    def recording(tables: Any, rows: Any, gaps: Any, *rest: Any) -> int:
        lengths = [
            table.remainders[index].bit_length() > 200
            for row in rows
            for table, index in zip(tables, row, strict=True)
        ]
        seen.append((len(rows), [len(row) for row in rows], gaps, lengths))
        return product(tables, rows, gaps, *rest)

    monkeypatch.setattr(fixed_base, "product", recording)
    fixed_base.powers(PUBLIC, unit(), EDGES)
    assert len(seen) == len(EDGES)
    assert all(one == seen[0] for one in seen)
    assert all(seen[0][3])


def test_a_shape_has_room_for_the_key() -> None:
    for bits in (6, 64, 1024, 2048, 3072, 4096):
        for count in (1, 2, 10, 100, 10_000):
            comb = fixed_base.shape(bits, count)
            assert comb.bits >= bits
            assert comb.groups << comb.teeth <= 1 << 13


@for_each("exponent", [N, -N, N + 12345], ids=["n", "minus-n", "above-n"])
def test_exponents_that_are_refused(exponent: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        fixed_base.powers(PUBLIC, unit(), [1, exponent])
    assert str(abs(exponent))[:8] not in str(caught.value)


def test_plaintexts_that_do_not_fit() -> None:
    with pytest.raises(InvalidInput, match="one plaintext"):
        fixed_base.powers(PUBLIC, unit(), [1, 2], [1])


@pytest.mark.slow
def test_at_the_size_of_real_keys() -> None:
    private = keys.generate(3072)
    n = int(private.public.n)
    (base,) = private.encrypt_many([1])
    exponents = [secrets.randbelow(n) - n // 2 for _ in range(60)]
    raised = fixed_base.powers(private.public, base, exponents, exponents)
    expected = [int(pow(base, one, n * n)) * (1 + one * n) % (n * n) for one in exponents]
    assert raised == expected
