"""Seeds and secrets in messages: too few bits, or the thing itself in any encoding."""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...fl.declarations.registry import declaration_of
from ...fl.parties.network import Message
from .finding import FALSE_ALARM, Finding, finding_from, values

PUBLISHED_BITS: Final = 32
"""Bits of a seed that can be tried one by one."""


def weak_seeds(
    seeds: Mapping[str, bytes], bits: int = 128, *, false_alarm: float = FALSE_ALARM
) -> Finding:
    """Look for seeds or keys with less than `bits` bits of entropy.

    `seeds` holds values as they travel, or as a party has them, by a label; hidden under one and
    the same key they will do.  A value is too short; it ends or begins in zeros; two are equal; or
    most bits are the same in all values.  What varies bounds the entropy from above: nothing here
    shows that a seed is good.
    """
    count = len(seeds)
    signs: list[tuple[float, float]] = []  # a bound on the entropy, and how likely it is by chance
    for value in seeds.values():
        # k zero bytes at either edge of one of `count` uniform values: union bound 2 count 256^-k.
        zeros = _edge_zeros(value)
        signs.append((8 * len(value), 0.0))
        signs.append((8 * (len(value) - zeros), 2 * count * 256.0**-zeros))
    # Two equal ones: a birthday bound on the entropy, at the level of a false alarm.
    if len(set(seeds.values())) < count:
        shortest = min(len(value) for value in seeds.values())
        signs.append((math.log2(count**2 / false_alarm), math.comb(count, 2) * 256.0**-shortest))
    signs.append(_varying(list(seeds.values())))
    weak = [(bound, 3 * chance) for bound, chance in signs if bound < bits]
    sure = [(bound, chance) for bound, chance in weak if chance <= false_alarm]
    at_most = math.ceil(min((bound for bound, _ in sure), default=0.0))
    return finding_from(
        "weak-seeds",
        min((chance for _, chance in weak), default=1.0),
        false_alarm,
        f"Seeds hold at most {at_most} bits, less than {bits}.",
        f"{count} seeds show no sign of holding less than {bits} bits.",
        recovered=at_most,
    )


def search_seed(
    matches: Callable[[int], bool],
    bits: int = PUBLISHED_BITS,
    *,
    budget: int = 2**16,
    chance_match: float = 0.0,
) -> Finding:
    """Try seeds in order until one matches: at most `budget` of 2^`bits`.

    `matches` compares what a seed would give with the transcript; `chance_match` is the probability
    that a wrong seed matches.  A search that stopped early excludes nothing: its sentence says how
    long the rest would take.
    """
    space = 2 ** validate.count(bits=bits)
    tries = min(space, validate.count(budget=budget))
    begun = time.process_time()
    match = next((seed for seed in range(tries) if matches(seed)), None)
    spent = max(time.process_time() - begun, 1e-9)
    share = tries / space
    rest = f"All {bits} bits would take about {_duration(spent * space / tries)} on one core."
    p_value = 1.0 if match is None else tries * chance_match
    return finding_from(
        "seed-search",
        p_value,
        FALSE_ALARM,
        f"A seed of {bits} bits was found by trying them.",
        f"No seed matched among {share:.2%} of those of {bits} bits. {rest}",
        recovered=match,
    )


def secrets_in(
    contents: Iterable[Message] | Mapping[str, bytes],
    secrets: Mapping[str, bytes | int | Sequence[int]],
    *,
    false_alarm: float = FALSE_ALARM,
) -> Finding:
    """Search messages, or any named contents (a log's lines), for secrets that are given.

    A secret is a key or seed (bytes), a large number, or a list of counts.  Looked for: raw bytes
    in either order, hexadecimal, base64 at every offset, decimal digits; lists also as arrays of 8
    to 64 bits and of floats, in either byte order, and as a list of numbers in a message.  An
    encoding that is so short that it would turn up by chance, in as many random bytes, is left out,
    and the sentence says how many secrets were left without any.
    """
    named, lists = _contents(contents)
    size = sum(len(body) for body in named.values()) + 1
    hits: dict[str, float] = {}
    too_short = 0
    for name, secret in secrets.items():
        scale = 64.0 * len(secrets) * size  # encodings, secrets and places where it may stand
        usable = [
            (encoded, scale * 2.0**-bits)
            for encoded, bits in set(_encodings(secret))
            if scale * 2.0**-bits <= false_alarm
        ]
        too_short += not usable
        numbers = _as_list(secret)
        for location, body in named.items():
            for encoded, chance in usable:
                if encoded in body:
                    hits[f"{name} in {location}"] = chance
        if numbers is not None and usable:
            for location, numbers_sent in lists.items():
                if _contains_run(numbers_sent, numbers):
                    hits[f"{name} in {location}"] = usable[0][1]
    left_out = f" {too_short} secrets are too short to be looked for." if too_short else ""
    return finding_from(
        "secrets",
        max(hits.values(), default=1.0),
        false_alarm,
        f"Secrets stand in what was sent, in {len(hits)} places.{left_out}",
        f"None of {len(secrets)} secrets stands in {size - 1:,} bytes.{left_out}",
        tuple(hits),
    )


# --- entropy --------------------------------------------------------------------------------------


def _edge_zeros(value: bytes) -> int:
    return len(value) - min(len(value.lstrip(b"\0")), len(value.rstrip(b"\0")))


def _varying(seeds: Sequence[bytes]) -> tuple[float, float]:
    """Return how many bits are not the same in all seeds, and the chance that so few vary."""
    from scipy.stats import binom

    if len(seeds) < 2 or len({len(seed) for seed in seeds}) > 1:
        return math.inf, 1.0
    # (seeds, bits); a bit of n uniform seeds is constant with probability 2^(1 - n).
    table = np.unpackbits(np.frombuffer(b"".join(seeds), np.uint8).reshape(len(seeds), -1), axis=1)
    constant = int((table == table[0]).all(axis=0).sum())
    chance = float(binom.sf(constant - 1, table.shape[1], 2.0 ** (1 - len(seeds))))
    return table.shape[1] - constant, chance


def _duration(seconds: float) -> str:
    for unit, length in (("years", 3.15e7), ("days", 86400.0), ("hours", 3600.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} seconds"


# --- encodings ------------------------------------------------------------------------------------


def _contents(
    contents: Iterable[Message] | Mapping[str, bytes],
) -> tuple[dict[str, bytes], dict[str, list[int]]]:
    if isinstance(contents, Mapping):
        return {location: bytes(body) for location, body in contents.items()}, {}
    named: dict[str, bytes] = {}
    lists: dict[str, list[int]] = {}
    for index, message in enumerate(contents):
        location = f"message {index} ({message.kind} from {message.sender})"
        named[location] = message.body
        lists[location] = [value for value in values(message) if type(value) is int]
    return named, lists


def _encodings(secret: bytes | int | Sequence[int]) -> Iterator[tuple[bytes, float]]:
    """Yield encodings of a secret, and how many random bits would have to agree with each."""
    if isinstance(secret, int):
        yield str(secret).encode(), len(str(secret)) * math.log2(10)
        secret = secret.to_bytes((secret.bit_length() + 7) // 8, "big")
    if not isinstance(secret, bytes):
        yield from _list_encodings([int(number) for number in secret])
        return
    raw = bytes(secret)
    for order in (raw, raw[::-1]):
        yield order, 8 * len(order)
        yield order.hex().encode(), 8 * len(order)
        yield order.hex().upper().encode(), 8 * len(order)
        # Base64 groups three bytes: the inner characters that no neighbour changes.
        for offset in range(3):
            encoded = base64.b64encode(bytes(offset) + order)
            inner = encoded[(8 * offset + 5) // 6 : (8 * (offset + len(order))) // 6]
            yield inner, 6 * len(inner)
            yield inner.translate(bytes.maketrans(b"+/", b"-_")), 6 * len(inner)


def _list_encodings(numbers: list[int]) -> Iterator[tuple[bytes, float]]:
    """Zero bytes count for nothing: they abound in whatever is not random."""
    if all(0 <= number < 2**63 for number in numbers):
        for kind in ("u1", "<u2", ">u2", "<u4", ">u4", "<u8", ">u8", "<f4", ">f4", "<f8", ">f8"):
            if "f" in kind or max(numbers, default=0) < 256 ** int(kind[-1]):
                encoded = np.array(numbers).astype(kind).tobytes()
                yield encoded, 8.0 * len(encoded.replace(b"\0", b""))
    for separator in (",", ", ", " ", ";", "\n"):
        text = separator.join(map(str, numbers)).encode()
        yield text, math.log2(11) * len(text)


def _as_list(secret: bytes | int | Sequence[int]) -> list[int] | None:
    if isinstance(secret, bytes | int):
        return None
    return [int(number) for number in secret]


def _contains_run(numbers: list[int], run: list[int]) -> bool:
    length = len(run)
    return any(numbers[at : at + length] == run for at in range(len(numbers) - length + 1))


def published_seed(
    view: Sequence[Message],
    modulus: int,
    *,
    count_limit: int,
    seed_bits: int = PUBLISHED_BITS,
    budget: int = 2**16,
) -> Finding:
    """Break the published Protocol 1 of Uldp-FL from what its server received in the setup.

    The server has R xor SK_0s for every silo s.  A guess of R (`seed_bits` bits) gives every SK_0s,
    so all masks of silo 0, and r_u; it is right if what is left over is r_u times a count of 0 to
    `count_limit`.  Recovered: the seed and the counts of silo 0.
    """
    setup = published_protocol("uldp-avg").setup_seen(view, modulus, seed_bits)
    finding = search_seed(
        lambda seed: setup.counts(seed, count_limit, 1) is not None,
        seed_bits,
        budget=budget,
        chance_match=(count_limit + 1) / modulus,
    )
    if not finding.detected or not isinstance(finding.recovered, int):
        return finding
    seed = finding.recovered
    return finding_from(
        "published-seed",
        finding.p_value,
        finding.false_alarm,
        f"The seed of {seed_bits} bits was found, and with it the raw counts of the first silo.",
        "",
        recovered={"seed": seed, "counts": setup.counts(seed, count_limit, setup.users)},
    )


def published_protocol(system: str) -> Any:
    """Return the published protocol of a system, which its declaration names (`study`).

    Raises `MissingExtra` where a package is missing that it needs, and `InvalidInput` for a system
    without one.
    """
    declaration = declaration_of(system)
    if declaration.study is None:
        raise InvalidInput(f"{system} declares no published protocol.")
    return declaration.load(declaration.study)
