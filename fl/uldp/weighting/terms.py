"""What all parties of the private weighting protocol agree on, and what follows from it.

Everything here is public, and fixed before the first message.

    c_su   a user's count in a silo, at most `count_cap` = floor((N_max - 1) / S)
    N_u    sum_s c_su + 1 (a dummy for every user), so 1 <= N_u <= N_max
    m      `multiple` = lcm(1..N_max), so m c_su / N_u is an integer
    V_j    sum_s ( sum_u (m c_su / N_u) d_suj + z_sj ): what is decrypted, exactly

As |d_suj| <= B, |z_sj| <= T and sum_s c_su < N_u for each of U users,

    |V_j| < U m B + S T,

which is what a slot of a ciphertext holds (`packing`), so nothing can overflow.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, TypeAlias

from ....accountant import validate
from ....accountant.errors import InvalidInput
from ....accountant.records import Security
from ....accountant.sensitivity.release import up
from ...crypto.paillier.packing import Packing

DrawnBy: TypeAlias = Literal["nobody", "server", "oblivious-transfer"]

DRAWN_BY: Final[tuple[DrawnBy, ...]] = ("nobody", "server", "oblivious-transfer")

KEY_BITS: Final = (2048, 3072, 4096)

_MIN_TEST_KEY_BITS: Final = 256
_MAX_DIGIT_BITS: Final = 32
_MAX_COUNT_LIMIT: Final = 10_000
_CIPHERTEXTS_PER_INVERSE: Final = 4
_INTEGER_FIELDS: Final = (
    "users", "silos", "dimensions", "largest", "key_bits", "count_limit", "records_per_count",
    "digits", "slots", "chosen",
)  # fmt: skip


def common_multiple(count_limit: int) -> int:
    """Return m = lcm(1..N_max): every weight c_su / N_u is a multiple of 1/m.

    Range: `count_limit` from 1 to 10,000.  Raises `InvalidInput`.

    >>> common_multiple(10)
    2520
    """
    if validate.count(count_limit=count_limit) > _MAX_COUNT_LIMIT:
        raise InvalidInput(
            f"`count_limit` must be at most {_MAX_COUNT_LIMIT}; it is {count_limit}."
        )
    return math.lcm(*range(1, count_limit + 1))


@dataclass(frozen=True)
class WeightingTerms:
    """The public parameters of one session of the protocol.

    - `users` U, `silos` S, `dimensions` D (parameters of the model).
    - `largest`: B, the norm (L2) of a row of digits, below 2^(`digits` - 1); `tail`: T, the largest
      noise of one silo in one coordinate, in steps of the decrypted integer.
    - `key_bits`: 2048, 3072 or 4096; `weak_key` allows shorter ones, for tests.
    - `count_limit`: N_max, above S; `records_per_count`: how many records count once.
    - `drawn_by`: who draws the users of a round: `nobody` (all take part), the `server`, or an
      `oblivious-transfer` of `chosen` real slots among `slots`, which shows the sample to nobody.

    Raises `InvalidInput` for values out of range, and where one parameter does not fit into a
    ciphertext.

    >>> terms = WeightingTerms(users=20, silos=3, dimensions=16, largest=2**15 - 1, tail=2**72)
    >>> terms.count_cap, terms.multiple.bit_length(), terms.packing.slots
    (13, 53, 40)
    """

    users: int
    silos: int
    dimensions: int
    largest: int
    tail: int
    key_bits: int = 3072
    count_limit: int = 40
    records_per_count: int = 1
    digits: int = 16
    drawn_by: DrawnBy = "nobody"
    slots: int | None = None
    chosen: int | None = None
    weak_key: bool = False

    def __post_init__(self) -> None:
        """Refuse what is out of range, or does not fit."""
        for name in _INTEGER_FIELDS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, validate.count(**{name: value}))
        validate.count_from(2, silos=self.silos)
        self._check_key()
        self._check_counts()
        self._check_digits()
        self._check_sampling()
        _ = self.packing

    @cached_property
    def count_cap(self) -> int:
        """The largest count of a user in one silo."""
        return (self.count_limit - 1) // self.silos

    @cached_property
    def multiple(self) -> int:
        """The least common multiple of all possible N_u: m, the paper's C_LCM."""
        return common_multiple(self.count_limit)

    @cached_property
    def bound(self) -> int:
        """What no decrypted integer exceeds: U m B + S T."""
        return self.users * self.multiple * self.largest + self.silos * self.tail

    @cached_property
    def packing(self) -> Packing:
        """How parameters share a ciphertext."""
        return Packing.plan(self.key_bits, self.bound)

    @cached_property
    def blocks(self) -> int:
        """Ciphertexts of one update."""
        return self.packing.blocks(self.dimensions)

    @property
    def modulus_bytes(self) -> int:
        """Bytes of a number below n."""
        return self.key_bits // 8

    @property
    def ciphertext_bytes(self) -> int:
        """Bytes of a number below n^2."""
        return 2 * self.modulus_bytes

    @property
    def pieces(self) -> int:
        """Ciphertexts that stand for one of B_u^-1: with powers of it, silos raise it faster.

        The server computes them once for all silos, in half the time that one silo saves; for every
        slot of an oblivious transfer that would not pay.
        """
        return 1 if self.drawn_by == "oblivious-transfer" else _CIPHERTEXTS_PER_INVERSE

    @property
    def rate(self) -> float:
        """The probability with which the oblivious transfer draws a user, rounded up; 1 without."""
        if self.slots is None or self.chosen is None:
            return 1.0
        return up(Fraction(self.chosen, self.slots))

    def security(self) -> Security:
        """Return the public facts of this protocol, for the log."""
        return Security(
            protocol="private-weighting",
            parties=self.silos,
            fewest=self.silos,
            key_bits=self.key_bits,
            count_limit=self.count_limit,
            count_cap=self.count_cap,
            records_per_count=self.records_per_count,
            slots=self.slots or 0,
            chosen=self.chosen or 0,
        )

    def digest(self) -> bytes:
        """Return 32 bytes that stand for these terms: parties that agree on it agree on them."""
        # `tail` in hex: it may exceed what JSON readers take for an exact integer.
        text = json.dumps({**asdict(self), "tail": hex(self.tail)}, sort_keys=True)
        return hashlib.sha256(b"privplan weighting terms\0" + text.encode()).digest()

    def _check_key(self) -> None:
        bits = self.key_bits
        if self.weak_key and bits >= _MIN_TEST_KEY_BITS and bits % 16 == 0:
            return
        if bits not in KEY_BITS:
            raise InvalidInput(
                f"`key_bits` must be one of {', '.join(map(str, KEY_BITS))}; it is {bits}.",
                "A shorter key can be broken, and then hides nobody's counts.",
                "Give 3072.",
            )

    def _check_counts(self) -> None:
        limit = self.count_limit
        if not self.silos < limit <= _MAX_COUNT_LIMIT:
            raise InvalidInput(
                f"`count_limit` must be above the number of silos ({self.silos}) and at most "
                f"{_MAX_COUNT_LIMIT}; it is {limit}.",
                "Each silo may count 1 for a user, and one dummy is counted for every user.",
                "Give a larger `count_limit`.",
            )

    def _check_digits(self) -> None:
        width = validate.count_from(2, digits=self.digits)
        if width > _MAX_DIGIT_BITS:
            raise InvalidInput(f"`digits` must be at most {_MAX_DIGIT_BITS}; it is {width}.")
        if self.largest >= 1 << (width - 1):
            raise InvalidInput(
                f"`largest` must be below 2^{width - 1}; it is {self.largest}.",
                f"A digit has {width} bits, with its sign.",
                "Give more `digits`, or a larger step.",
            )
        if isinstance(self.tail, bool) or not isinstance(self.tail, int) or self.tail < 0:
            raise InvalidInput("`tail` must be an integer, 0 or above.")

    def _check_sampling(self) -> None:
        validate.choice(DRAWN_BY, drawn_by=self.drawn_by)
        if self.drawn_by != "oblivious-transfer":
            if self.slots is not None or self.chosen is not None:
                raise InvalidInput(
                    "`slots` and `chosen` are for an oblivious transfer.",
                    next_step='Leave them out, or give `drawn_by` "oblivious-transfer".',
                )
            return
        if self.slots is None or self.chosen is None:
            raise InvalidInput("An oblivious transfer needs `slots` and `chosen`.")
        if validate.count_from(2, slots=self.slots) > 65535:
            raise InvalidInput(f"`slots` must be at most 65,535; it is {self.slots}.")
        if self.chosen > self.slots:
            raise InvalidInput(f"`chosen` must be at most {self.slots}; it is {self.chosen}.")
