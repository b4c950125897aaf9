"""What Paillier ciphertexts say besides their plaintext: their randomness, and noise-free residues.

A ciphertext c = (1+n)^m rho^n mod n^2 shows R = rho^n to the owner of the key, R = c (1+n)^(-m);
and R is known to *everybody*, since R = c modulo n, and n-th residues modulo n^2 are told apart by
their value modulo n.  So a product of powers that nobody re-randomises tells its exponents' zeros
and equalities, whatever is added to the plaintext.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

import numpy as np

from ...accountant import validate
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...fl.crypto.paillier.arithmetic import powmod
from .finding import FALSE_ALARM, Finding, finding_from, places_of

ALL_SILOS: Final = "all together"

MAX_WRAPS: Final = 729  # 3^6


def plaintext(ciphertext: int, primes: tuple[int, int]) -> int:
    """Return what a ciphertext holds, in [0, n), by the private key (p, q)."""
    p, q = primes
    n, order = p * q, math.lcm(p - 1, q - 1)
    return (int(powmod(ciphertext, order, n * n)) - 1) // n * pow(order, -1, n) % n


def randomness(ciphertext: int, primes: tuple[int, int]) -> int:
    """Return R = c (1+n)^(-Dec c) mod n^2, the randomness of a ciphertext, by the private key."""
    n = math.prod(primes)
    return ciphertext * (1 - n * plaintext(ciphertext, primes)) % (n * n)


def decrypted_sums(sent: Mapping[str, Sequence[int]], primes: tuple[int, int]) -> list[int]:
    """Return V_j, what the product over all senders of their j-th ciphertexts holds: signed."""
    n = math.prod(primes)
    opened = [
        plaintext(math.prod(column) % (n * n), primes)
        for column in zip(*sent.values(), strict=True)
    ]
    return [value - n if value > n // 2 else value for value in opened]


def shown_randomness(
    sent: Mapping[str, Sequence[int]],
    modulus: int,
    *,
    invited: Sequence[int] = (),
    largest: int = 2,
) -> Finding:
    """Look for ciphertexts whose randomness is 1, or is related to another one's.

    `sent` holds ciphertexts by who sent them (or by sender and round); they are also looked at
    multiplied together, where masks between the senders cancel.  Relations R_j^a = R_k^b are tried
    for 1 <= |a|, |b| <= `largest`; `invited`, the ciphertexts that the exponents were applied to,
    makes up for exponents that were reduced modulo n.

    R = 1: nothing was moved there.  R_j^a = R_k^b: every user moved the two in the ratio b : a.

    If each R is uniform, one comparison succeeds with probability at most `largest`^4 / phi(n).
    """
    n = validate_modulus(modulus)
    entries = list(_entries(sent, n))
    ones = [position for position, residue in entries if residue == 1]
    moved = [(position, residue) for position, residue in entries if residue != 1]
    wraps = _wraps(invited, n)
    related: set[tuple[tuple[str, int], tuple[str, int]]] = set()
    powers = {
        a: [int(powmod(residue, a, n)) for _, residue in moved] for a in range(1, largest + 1)
    }
    # A table of all powers R_j^a, so that relations R_j^a = R_k^b are look-ups and no double loop.
    known: dict[int, list[tuple[int, int]]] = {}
    for a, residues in powers.items():
        for index, residue in enumerate(residues):
            known.setdefault(residue, []).append((a, index))
    for a, residues in powers.items():
        for index, residue in enumerate(residues):
            for turned in (residue, pow(residue, -1, n)):
                for wrap in wraps:
                    # Coprime exponents only: a multiple of a relation is the same relation.
                    for b, other in known.get(turned * wrap % n, ()):
                        if index < other and math.gcd(a, b) == 1:
                            related.add((moved[index][0], moved[other][0]))
    # A union bound over everything that was compared.
    tried = len(entries) + 2 * (largest * len(moved)) ** 2 * len(wraps)
    anything = bool(ones or related)
    pairs = [position for pair in sorted(related) for position in pair]
    return finding_from(
        "paillier-randomness",
        tried * largest**4 / n if anything else 1.0,
        FALSE_ALARM,
        f"Ciphertexts show their randomness: it is 1 in {len(ones)} of {len(entries)}, so nobody "
        f"moved those parameters, and {len(related)} pairs are moved in a fixed ratio.",
        f"No randomness of {len(entries)} ciphertexts is 1 or related to another's.",
        places_of(dict.fromkeys(ones + pairs)),
        {"unmoved": ones, "related": sorted(related)},
    )


def noise_free_residue(
    draws: Sequence[Sequence[int]],
    modulus: int,
    *,
    without: Sequence[Sequence[int]] = (),
    false_alarm: float = FALSE_ALARM,
) -> Finding:
    """Look for what noise leaves untouched of decrypted integers V: their residue mod `modulus`.

    `draws` is (repetitions, parameters), each with fresh noise on the same updates; `without` the
    same without a target user.  If the noise covers every residue, V mod m is uniform, whatever
    the updates are.  Looked for: a residue that all repetitions have in common (probability
    m^(1-repetitions) a parameter), a prime factor that m has in common with all V, and a
    distribution that is not uniform, or not the same without the user (chi-square).
    """
    m = validate.count_from(2, modulus=modulus)
    ours, theirs = _table(draws, m), _table(without, m)
    p_values = {
        "constant": min(_constant_p(ours, m), _constant_p(theirs, m)),
        "factor": min(_factor_p(ours, m), _factor_p(theirs, m)),
        "shape": min(_shape_p(ours, m), _shape_p(theirs, m)),
        "user": _difference_p(ours, theirs, m),
    }
    # Seven tests in all: two of each kind but the last (Bonferroni).
    best = min(p_values, key=lambda name: p_values[name])
    sentence = {
        "constant": "The residue is the same under all noise, so it is a function of raw updates.",
        "factor": "All values share a factor with the modulus, which no noise ever touches.",
        "shape": "The residues are not uniform, so the noise does not cover them.",
        "user": "The residues differ from those without the target user by no matter of noise.",
    }
    differs = bool(theirs) and any(row not in theirs for row in ours)
    also = " It is another one without the target user." if differs and best == "constant" else ""
    return finding_from(
        "noise-free-residue",
        7 * p_values[best],
        false_alarm,
        sentence[best] + also,
        f"The residues of {sum(len(row) for row in ours)} values look uniform.",
        recovered={"residues": ours[0] if ours else [], "differs": differs},
    )


# --- randomness -----------------------------------------------------------------------------------


def validate_modulus(modulus: int) -> int:
    """Return an odd modulus of 16 bits or more; `InvalidInput` for another."""
    if modulus < 2**15 or modulus % 2 == 0:
        raise InvalidInput("`modulus` must be a Paillier modulus.")
    return modulus


def _entries(sent: Mapping[str, Sequence[int]], n: int) -> Iterator[tuple[tuple[str, int], int]]:
    for label, ciphertexts in sent.items():
        for index, ciphertext in enumerate(ciphertexts):
            yield (label, index), ciphertext % n
    if len(sent) > 1 and len({len(values) for values in sent.values()}) == 1:
        for index, column in enumerate(zip(*sent.values(), strict=True)):
            yield (ALL_SILOS, index), math.prod(column) % n


def _wraps(invited: Sequence[int], n: int) -> list[int]:
    """Return what exponents that differ by multiples of n make: c^(n t), |t| at most 1 a user."""
    powers = [int(powmod(ciphertext % n, n, n)) for ciphertext in invited]
    choices = [(1, power, pow(power, -1, n)) for power in powers]
    if 3 ** len(powers) > MAX_WRAPS:
        every = math.prod(powers) % n
        return [1, every, pow(every, -1, n)]
    return list({math.prod(chosen) % n for chosen in product(*choices)})


# --- residues -------------------------------------------------------------------------------------


def _table(draws: Sequence[Sequence[int]], m: int) -> list[list[int]]:
    table = [[int(value) % m for value in row] for row in draws]
    if len({len(row) for row in table}) > 1:
        raise InvalidInput("Every repetition must have the same number of parameters.")
    return table


def _constant_p(table: list[list[int]], m: int) -> float:
    if len(table) < 2:
        return 1.0
    same = sum(len(set(column)) == 1 for column in zip(*table, strict=True))
    ways = math.log(math.comb(len(table[0]), same))  # a union bound over which they are
    return math.exp(min(0.0, ways - same * (len(table) - 1) * math.log(m)))


def _factor_p(table: list[list[int]], m: int) -> float:
    flat = [value for row in table for value in row]
    if not flat:
        return 1.0
    # Under uniform residues a prime p divides all n values with probability p^-n.
    shared = math.gcd(*flat, m)
    common = [prime for prime in _small_primes(m) if shared % prime == 0]
    return len(_small_primes(m)) * float(max(common)) ** -len(flat) if common else 1.0


def _shape_p(table: list[list[int]], m: int) -> float:
    """Return a p-value for uniformity over equal ranges, and modulo small primes, of m."""
    flat = [value for row in table for value in row]
    tests = []
    for bins, counted in _binnings(flat, m):
        if bins > 1:
            tests.append(_chi_square(counted, _shares(bins, m, counted)))
    return len(tests) * min(tests) if tests else 1.0


def _difference_p(ours: list[list[int]], theirs: list[list[int]], m: int) -> float:
    """Return a p-value for differences that are uniform, as they are if both residues are."""
    if not ours or not theirs or len(ours[0]) != len(theirs[0]):
        return 1.0
    differences = [
        [(a - b) % m for a, b in zip(row, other_row, strict=True)]
        for row, other_row in zip(ours, theirs, strict=False)
    ]
    return min(1.0, 2 * min(_constant_p(differences, m), _shape_p(differences, m)))


def _binnings(flat: list[int], m: int) -> Iterator[tuple[int, IntArray]]:
    room = len(flat) // 20
    bins = min(64, m, room)
    if bins > 1:
        yield bins, np.bincount([value * bins // m for value in flat], minlength=bins)
    for prime in _small_primes(m):
        if prime <= min(room, 64):
            yield prime, np.bincount([value % prime for value in flat], minlength=prime)


def _shares(bins: int, m: int, counted: IntArray) -> FloatArray:
    # How many residues of m fall into each of `bins` equal ranges: exact, in integers.
    if m % bins == 0:
        return np.full(len(counted), 1.0 / bins)
    edges = [-(-m * index // bins) for index in range(bins + 1)]
    return np.diff(np.array(edges, dtype=object)).astype(np.float64) / m


def _chi_square(counted: IntArray, shares: FloatArray) -> float:
    from scipy.stats import chi2

    # Pearson's statistic with bins - 1 degrees of freedom.
    expected = shares * counted.sum()
    statistic = ((counted - expected) ** 2 / expected).sum()
    return float(chi2.sf(statistic, len(counted) - 1))


def _small_primes(m: int) -> list[int]:
    """Return the prime factors of m below 10,000."""
    primes: list[int] = []
    for candidate in range(2, 10_000):
        if m % candidate == 0 and all(candidate % prime for prime in primes):
            primes.append(candidate)
    return primes
