"""Private weighting: a silo's work for each parameter and user, and whole rounds."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import timing
from numpy.typing import NDArray
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds

if TYPE_CHECKING:
    from privplan.fl.crypto.paillier.packing import Packing
    from privplan.fl.crypto.paillier.residues import Residues

KEY_BITS, COUNT_LIMIT, DIGIT_BITS, SILOS = 3072, 40, 16, 5
LARGEST_DIGIT = 2 ** (DIGIT_BITS - 1) - 1
COMMON_MULTIPLE = math.lcm(*range(1, COUNT_LIMIT + 1))
NOISE_TAIL = 90 * COMMON_MULTIPLE * LARGEST_DIGIT
"""Bound on one silo's noise in one parameter: 40 deviations of a fifth of noise 5, rounded up."""

USERS, PARAMETERS = 100, 4000
PIECES, ROUNDS, PROCESSES = 4, 10, 2
"""Powers that the server sends of each ciphertext, rounds of a run, processes of a whole round."""

PRICE = 30.0
"""Microseconds for each parameter and user that a silo may take."""

SIGNED, PUBLISHED = 8.0, 400.0
"""How many times as slow the loops of phe are, at least."""

SIGNED_CASE, PUBLISHED_CASE = (USERS, 4), (5, 4)
"""Users and parameters that the loops of phe are measured on, twice."""

MAX_SETUP_SECONDS = 5.0
ROUND_CASES = ((4000, 100, 5, 45.0), (16, 20, 3, 1.0))
"""Parameters, users, silos, and the seconds that a round may take on two processes."""

NOTE = """\
Keys of 3072 bits, digits of 16, counts up to 40; CPU time of one process. Everything a silo does in
a round: it raises every user's ciphertext (the server sent four powers of it), multiplies tables of
powers with its noise, and blinds with its own residues and four masks. The table of residues is
made once for a run and stands below the line. The loops: phe's EncryptedNumber times an int for
each user, and their sum, of ciphertexts that were raised already; signed, and in the published
encoding, where max_int is n - 1 and phe inverts every number, so that a positive one becomes an
exponent as long as the key. They are measured on fewer parameters and users, before and after.
Digits are uniform over their 16 bits. On shorter ones the signed loop is faster (on 10 bits, three
quarters of its time); ours takes the same time whatever they are."""

ROUND_NOTE = """\
Wall time, two processes, all parties one after the other; the server draws the users, so that all
ciphertexts are made anew in every round. The setup makes the server's key, all keys of the silos
and, with many ciphertexts in ten rounds, each silo's table of residues. Results are compared with
plain integers."""


class Stopwatch:
    """CPU seconds of this process, by what they were spent on."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Add what the block takes to `name`."""
        start = time.process_time()
        yield
        self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - start


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the tables and return what was asked of them."""
    missing = [package for package in ("gmpy2", "phe", "joblib") if find_spec(package) is None]
    if missing:
        console.print(f"[yellow]Private weighting is skipped: {', '.join(missing)} not there.[/]")
        return []
    verdicts = _silo(console, PARAMETERS // 4 if quick else PARAMETERS)
    return [*verdicts, *_rounds(console, ROUND_CASES[1:] if quick else ROUND_CASES)]


def _silo(console: Console, parameters: int) -> list[Verdict]:
    from privplan.fl.crypto.paillier import keys
    from privplan.fl.crypto.paillier.packing import Packing
    from privplan.fl.crypto.paillier.residues import Residues

    progress(f"a silo's round of {parameters} parameters and {USERS} users")
    private = keys.generate(KEY_BITS)
    packing = Packing.plan(KEY_BITS, USERS * COMMON_MULTIPLE * LARGEST_DIGIT + SILOS * NOISE_TAIL)
    residues = Residues(private.public, expected=ROUNDS * packing.blocks(parameters))
    prepared = Stopwatch()
    with prepared("table of residues, once a run"):
        residues.prepare()
    bases = private.encrypt_many(range(1, USERS + 1))
    signed, published = _phe_signed(bases, private), _phe_published(bases, private)
    parts = _round_of_a_silo(private, packing, residues, parameters)
    signed = (signed + _phe_signed(bases, private)) / 2
    published = (published + _phe_published(bases, private)) / 2

    price = sum(parts.values()) / (parameters * USERS) * 1e6
    table = grid(
        f"A silo's round: {parameters:,} parameters, {USERS} users", "<part", "CPU", "us", "ratio"
    )
    for name, spent in parts.items():
        table.add_row(name, seconds(spent), _micro(spent / (parameters * USERS)))
    table.add_row("all", seconds(sum(parts.values())), f"{price:.1f}", "1x", end_section=True)
    for name, spent in prepared.spent.items():
        table.add_row(name, seconds(spent), _micro(spent / (parameters * USERS)))
    for name, each in (("phe, signed", signed), ("phe, published encoding", published)):
        table.add_row(name, "", _micro(each), f"{each * 1e6 / price:.1f}x")
    console.print(table, NOTE, "", sep="\n")
    return [
        Verdict(
            "private weighting, CPU of a silo for each parameter and user",
            f"<= {PRICE:g} us",
            f"{price:.1f} us",
            price <= PRICE,
        ),
        _slower("a loop over phe, signed, over ours", SIGNED, signed * 1e6 / price),
        _slower(
            "a loop over phe, published encoding, over ours", PUBLISHED, published * 1e6 / price
        ),
    ]


def _round_of_a_silo(
    private: Any, packing: Packing, residues: Residues, parameters: int
) -> dict[str, float]:
    """Return what one silo spends on one round, by part; its result is checked."""
    from privplan.fl.crypto.paillier import blinding
    from privplan.fl.crypto.paillier.powers import rescale
    from privplan.fl.crypto.paillier.products import products

    public, rng = private.public, np.random.default_rng(1)
    n, inverses = int(public.n), [random.randrange(1, int(public.n)) for _ in range(USERS)]
    sent = private.powers(private.encrypt_many(inverses), PIECES)
    weights = [COMMON_MULTIPLE // 40 * int(count) for count in rng.integers(1, 8, USERS)]
    exponents = [w * pow(inverse, -1, n) % n for w, inverse in zip(weights, inverses, strict=True)]
    digits = rng.integers(-LARGEST_DIGIT, LARGEST_DIGIT + 1, (USERS, parameters))
    noise = [random.randint(-NOISE_TAIL, NOISE_TAIL) for _ in range(parameters)]
    blocks = packing.blocks(parameters)
    length = blinding.keystream_length(public, blocks)
    streams = [os.urandom(length) for _ in range(SILOS - 1)]

    part = Stopwatch()
    with part("raising ciphertexts"):
        bases = rescale(public, sent, exponents)
    with part("products, tables and noise"):
        sums = products(public, bases, digits, packing, plaintexts=packing.pack(noise))
    with part("own residues"):
        fresh = residues.draw(blocks)
    with part("masks and writing"):
        masks = [blinding.units(public, stream, blocks) for stream in streams]
        public.write(blinding.blinded(public, sums, fresh, masks[:2], masks[2:]))

    decrypted = packing.unpack(
        private.decrypt_many(blinding.blinded(public, sums, fresh)), parameters, n
    )
    _compare(decrypted, np.array(weights, dtype=object) @ digits.astype(object) + noise)
    return part.spent


def _phe_signed(bases: list[int], private: Any) -> float:
    """Return the seconds that a loop over phe takes for each parameter and user."""
    return _phe_loop(bases, private, SIGNED_CASE, lambda key: key)


def _phe_published(bases: list[int], private: Any) -> float:
    """The same as it was published: every number of [0, n) is valid, and taken for a negative."""

    def encoded(key: Any) -> Any:
        key.max_int = key.n - 1
        return key

    return _phe_loop(bases, private, PUBLISHED_CASE, encoded)


def _phe_loop(
    bases: list[int], private: Any, case: tuple[int, int], key_of: Callable[[Any], Any]
) -> float:
    from phe import paillier

    users, parameters = case
    key = key_of(paillier.PaillierPublicKey(int(private.public.n)))
    ciphertexts = [paillier.EncryptedNumber(key, int(base)) for base in bases[:users]]
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, LARGEST_DIGIT + 1, (parameters, users))
    signs = np.where(np.arange(sizes.size).reshape(sizes.shape) % 2, -1, 1)  # as many of each
    watch = Stopwatch()
    with watch("phe"):
        totals = []
        for row in (sizes * signs).tolist():
            total = ciphertexts[0] * row[0]
            for ciphertext, digit in zip(ciphertexts[1:], row[1:], strict=True):
                total = total + ciphertext * digit
            totals.append(total)
    n = int(private.public.n)
    expected = [int(product) % n for product in (sizes * signs) @ np.arange(1, users + 1)]
    _compare(private.decrypt_many([total.ciphertext(False) for total in totals]), expected)
    return watch.spent["phe"] / (users * parameters)


def _rounds(console: Console, cases: tuple[tuple[int, int, int, float], ...]) -> list[Verdict]:
    table = grid(
        "Rounds of private weighting",
        *("parameters", "users", "silos", "setup", "round", "decrypted as it should be"),
    )
    verdicts = []
    for parameters, users, silos, allowed in cases:
        progress(f"private weighting of {parameters} parameters, {users} users, {silos} silos")
        setup, spent = _whole_round(parameters, users, silos)
        table.add_row(
            *(f"{parameters:,}", str(users), str(silos), seconds(setup), seconds(spent), "yes")
        )
        what = f"private weighting of {parameters:,} parameters, {users} users, {silos} silos"
        verdicts.append(Verdict(what, f"<= {allowed:g} s", seconds(spent), spent <= allowed))
        if users == ROUND_CASES[-1][1]:
            verdicts.append(
                Verdict(
                    f"{what}: setup",
                    f"<= {MAX_SETUP_SECONDS:g} s",
                    seconds(setup),
                    setup <= MAX_SETUP_SECONDS,
                )
            )
    console.print(table, ROUND_NOTE, "", sep="\n")
    return verdicts


def _whole_round(parameters: int, users: int, silos: int) -> tuple[float, float]:
    """Return the wall seconds of a session's setup and of one round, whose result is checked."""
    from privplan.fl.crypto.paillier.processes import Workers
    from privplan.fl.uldp.weighting.protocol import PrivateWeighting
    from privplan.fl.uldp.weighting.terms import WeightingTerms

    rng = np.random.default_rng(3)
    terms = WeightingTerms(
        users=users,
        silos=silos,
        dimensions=parameters,
        largest=LARGEST_DIGIT,
        tail=NOISE_TAIL,
        key_bits=KEY_BITS,
        count_limit=COUNT_LIMIT,
        digits=DIGIT_BITS,
        drawn_by="server",
    )
    counts = rng.integers(1, (COUNT_LIMIT - 1) // silos + 1, (users, silos))
    digits = [_rows(rng, users, parameters) for _ in range(silos)]
    noise = [
        [random.randint(-NOISE_TAIL, NOISE_TAIL) for _ in range(parameters)] for _ in range(silos)
    ]
    joining = rng.random(users) < 0.9

    def begin() -> PrivateWeighting:
        Workers(PROCESSES).start()
        return PrivateWeighting(terms, counts, processes=PROCESSES, rounds=ROUNDS)

    setup = timing.call_once(begin)
    rows = [(np.arange(users), silo_digits) for silo_digits in digits]
    done = timing.call_once(lambda: setup.result.round(1, rows, noise, joining=joining))
    totals = counts.sum(axis=1) + 1
    expected = np.array(noise, dtype=object).sum(axis=0)
    for silo, silo_digits in enumerate(digits):
        weights = [
            COMMON_MULTIPLE // int(total) * int(count) * int(joined)
            for total, count, joined in zip(totals, counts[:, silo], joining, strict=True)
        ]
        expected = expected + np.array(weights, dtype=object) @ silo_digits.astype(object)
    _compare(done.result, expected)
    return setup.seconds, done.seconds


def _rows(rng: np.random.Generator, users: int, parameters: int) -> NDArray[np.int64]:
    """Return digits whose rows have norms of at most `LARGEST_DIGIT`."""
    rows = rng.normal(size=(users, parameters))
    rows *= LARGEST_DIGIT / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.trunc(rows * (1 - 1e-9)).astype(np.int64)


def _compare(computed: Any, expected: Any) -> None:
    if [int(value) for value in computed] != [int(value) for value in expected]:
        raise RuntimeError("A decrypted sum is not the sum of plain integers.")


def _slower(what: str, asked: float, ratio: float) -> Verdict:
    return Verdict(what, f">= {asked:g}x", f"{ratio:.1f}x", ratio >= asked)


def _micro(spent: float) -> str:
    return f"{spent * 1e6:,.2f}"
