"""Allocation: which user and which silo each training record belongs to, in a simulation.

Public set-up of an experiment, not protection: the generator is the caller's and may be seeded.

Free data (no silo of their own), n records, |U| users, |S| silos:

- `uniform`: a balanced permutation.  Numbers of records differ by at most 1 between users, and
  between silos; the two are independent.
- `zipf`: record by record, a user with p_i ~ i^-0.5 (i = 1..|U|) and then a silo with p_j ~ j^-2,
  where each user ranks the silos in an order of its own.
- `classes-1`, `classes-2`: each silo has records of exactly one label, or two, and otherwise as
  many as the others, give or take; users are dealt as in `uniform`.  For studies of how learning
  bears silos that differ: what is dealt by labels depends on the labels of all records.

Data whose silos are fixed (hospitals, regions):

- `uniform`: users are dealt over all records in a balanced permutation.
- `zipf`: every user first gets `least` records and the rest by p_i ~ i^-0.5; 80% of a user's
  records in expectation go to one silo, drawn at random, 20% evenly to the others; what a full
  silo cannot take overflows to the next one.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, section 5, and
what its reference code does where the text is silent; `classes-1` and `classes-2` are the 1-class
and 2-class non-iid data of Cao et al. 2023 (DELM), where a silo is a client.  Own choices: a user
who would have fewer than `least` records takes some from those who have most, and `labels_per_user`
(see `allocate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.random import Generator

from ...accountant import validate
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput
from .federation import checked_indices

Rule = Literal["uniform", "zipf", "classes-1", "classes-2"]
RULES: Final[tuple[Rule, ...]] = get_args(Rule)

LABELS_PER_SILO: Final = {"classes-1": 1, "classes-2": 2}
"""How many labels a silo has, by the rules that deal silos by label."""

USER_EXPONENT: Final = 0.5
SILO_EXPONENT: Final = 2.0
MAIN_SHARE: Final = 0.8


@dataclass(frozen=True, eq=False)
class Allocation:
    """The user and the silo of each record: two arrays (records,) int64."""

    user: IntArray
    silo: IntArray


def zipf_probabilities(count: int, exponent: float) -> FloatArray:
    """Return the bounded zipf law p_i ~ i^-exponent over i = 1..count.

    >>> zipf_probabilities(2, 1.0).round(3).tolist()
    [0.667, 0.333]
    """
    weights = np.arange(1.0, validate.count(count=count) + 1) ** -exponent
    law: FloatArray = weights / weights.sum()
    return law


def allocate(
    rule: str,
    *,
    records: int,
    users: int,
    silos: int,
    rng: Generator,
    labels: IntArray | None = None,
    labels_per_user: int | None = None,
) -> Allocation:
    """Return who holds which record, where the data have no silos of their own.

    `rule`: one of `RULES`, see the module; every user has at least one record.
    `labels_per_user`: each user holds records of exactly this many labels.  They are drawn so that
    every label has as many users, give or take one, and its records are divided among them in
    proportion to what `rule` gives each; numbers per user are then only near those of the rule.

    Raises `InvalidInput` for an unknown rule, fewer records than users or silos, labels that
    cannot be divided as asked, and `labels_per_user` with a rule that deals silos by label.

    >>> made = allocate("uniform", records=6, users=3, silos=2, rng=np.random.default_rng(0))
    >>> np.bincount(made.user).tolist(), np.bincount(made.silo).tolist()
    ([2, 2, 2], [3, 3])
    """
    validate.choice(RULES, allocation=rule)
    total, parties, places = _sizes(records, users, silos)
    labels_per_silo = LABELS_PER_SILO.get(rule)
    if labels_per_silo is not None and labels_per_user is not None:
        raise InvalidInput(
            f"`labels_per_user` does not go with `allocation` {rule}.",
            "The rule alone says which labels a silo has.",
            "Leave one of them out.",
        )
    counts = _user_counts(rule, total, parties, rng)
    if labels_per_user is None:
        user = rng.permutation(np.repeat(np.arange(parties), counts))
    else:
        user = _by_label(labels, total, counts, labels_per_user, rng)
    if labels_per_silo is not None:
        even = np.full(places, total // places)
        silo = _by_label(labels, total, even, labels_per_silo, rng, "silo")
    elif rule == "uniform":
        silo = rng.permutation(np.arange(total) % places)
    else:
        ranked = rng.permuted(np.tile(np.arange(places), (parties, 1)), axis=1)
        drawn = rng.choice(places, size=total, p=zipf_probabilities(places, SILO_EXPONENT))
        silo = ranked[user, drawn]
    return Allocation(user.astype(np.int64), silo.astype(np.int64))


def allocate_within(
    rule: str, silo: IntArray, *, silos: int, users: int, rng: Generator, least: int = 1
) -> Allocation:
    """Return who holds which record, where `silo` (records,) is fixed by the data.

    `rule`: `uniform` or `zipf`, see the module.  `least`: every user has at least this many
    records.  With 2, as Cox's loss needs, records are also dealt so that a user has 2 or more in
    each silo where it has any; overflow and `uniform` over small silos can leave a single one.

    Raises `InvalidInput` for an unknown rule, one that deals silos by label, and fewer than `least`
    records per user.
    """
    validate.choice(RULES, allocation=rule)
    if rule in LABELS_PER_SILO:
        raise InvalidInput(
            f"`allocation` {rule} deals records to silos, and those of this data set are fixed.",
            "They are the centres that the records come from.",
            "Choose uniform or zipf.",
        )
    fixed = checked_indices("silo", silo, len(silo), validate.count(silos=silos))
    smallest = validate.count(least=least)
    total, parties, _ = _sizes(len(fixed), users, 1)
    if total < smallest * parties:
        raise InvalidInput(
            f"{total} records are too few for {parties} users of {smallest} or more.",
            next_step="Ask for fewer users.",
        )
    room = np.bincount(fixed, minlength=silos)
    if rule == "uniform":
        records_by_silo = _dealt(room, parties, smallest, rng)
    else:
        counts = _zipf_counts(total, parties, smallest, rng)
        records_by_silo = _overflowed(_spread(counts, silos, smallest, rng), room)
    user = np.empty(total, np.int64)
    for silo_index in range(silos):
        held = np.repeat(np.arange(parties), records_by_silo[:, silo_index])
        user[fixed == silo_index] = rng.permutation(held)
    return Allocation(user, fixed)


def _sizes(records: int, users: int, silos: int) -> tuple[int, int, int]:
    total = validate.count(records=records)
    for field, number in (
        ("users", validate.count(users=users)),
        ("silos", validate.count(silos=silos)),
    ):
        if total < number:
            raise InvalidInput(
                f"{total} records are too few for {number} {field}.",
                "Each must have at least one record.",
                f"Ask for fewer {field}.",
            )
    return total, users, silos


def _user_counts(rule: str, total: int, users: int, rng: Generator) -> IntArray:
    if rule != "zipf":
        return np.bincount(rng.permutation(users)[np.arange(total) % users], minlength=users)
    return _topped_up(rng.multinomial(total, zipf_probabilities(users, USER_EXPONENT)), 1)


def _zipf_counts(total: int, users: int, least: int, rng: Generator) -> IntArray:
    rest = rng.multinomial(total - least * users, zipf_probabilities(users, USER_EXPONENT))
    return rest + least


def _topped_up(counts: IntArray, least: int) -> IntArray:
    """Return counts of at least `least`, what is missing taken one by one from the largest."""
    missing = int(np.maximum(least - counts, 0).sum())
    full = np.maximum(counts, least)
    for _ in range(missing):
        full[np.argmax(full)] -= 1
    return full


def _by_label(
    labels: IntArray | None,
    total: int,
    counts: IntArray,
    per_holder: int,
    rng: Generator,
    holder: Literal["user", "silo"] = "user",
) -> IntArray:
    """Return the user, or silo, of each record, so that each has records of `per_holder` labels."""
    key = f"labels_per_{holder}"
    if labels is None:
        raise InvalidInput(
            f"`{key}` needs one class label per record.",
            next_step="Leave it out for this data set.",
        )
    wanted = validate.count(**{key: per_holder})
    present, label = np.unique(checked_indices("labels", labels, total, 10**9), return_inverse=True)
    chosen = _labels_of_holders(len(counts), len(present), wanted, rng, key)
    user = np.empty(total, np.int64)
    for label_index in range(len(present)):
        holders = np.flatnonzero((chosen == label_index).any(axis=1))
        places = np.flatnonzero(label == label_index)
        if not 0 < len(holders) <= len(places):
            raise InvalidInput(
                f"The records of a label cannot be divided among {len(holders)} {holder}s.",
                f"Each label needs at least one {holder}, and each of its {holder}s a record.",
                f"Change `{holder}s` or `{key if holder == 'user' else 'allocation'}`.",
            )
        shares = _in_proportion(len(places), counts[holders])
        user[places] = rng.permutation(np.repeat(holders, shares))
    return user


def _labels_of_holders(
    holders: int, labels: int, wanted: int, rng: Generator, key: str
) -> IntArray:
    """Return (holders, wanted) different labels each, every label as often, give or take one."""
    if wanted > labels:
        raise InvalidInput(
            f"`{key}` is {wanted}, but the data have {labels} labels.",
            next_step="Ask for fewer labels.",
        )
    used = np.zeros(labels)
    chosen = np.empty((holders, wanted), np.int64)
    # The labels that fewest have so far, ties broken at random.
    for holder in rng.permutation(holders):
        chosen[holder] = np.argsort(used + rng.random(labels) / 2)[:wanted]
        used[chosen[holder]] += 1
    return chosen


def _in_proportion(total: int, weights: IntArray) -> IntArray:
    """Return `total` as integers of at least 1 in proportion to `weights`."""
    rest = total - len(weights)
    # Rounded cumulative shares, so that the parts add up to the total exactly.
    ends = np.rint(np.cumsum(weights) / weights.sum() * rest).astype(np.int64)
    shares: IntArray = np.diff(ends, prepend=0) + 1
    return shares


def _spread(counts: IntArray, silos: int, least: int, rng: Generator) -> IntArray:
    """Return (users, silos): each user's records, most of them in a silo of its own."""
    users = len(counts)
    if silos == 1:
        return counts[:, None]
    shares = np.full((users, silos), (1.0 - MAIN_SHARE) / (silos - 1))
    shares[np.arange(users), rng.integers(silos, size=users)] = MAIN_SHARE
    wanted = rng.multinomial(counts, shares)
    for row in wanted if least > 1 else ():
        _gather(row, least, rng)
    return wanted


def _gather(row: IntArray, least: int, rng: Generator) -> None:
    """Move a user's records, in place, out of the silos where it has fewer than `least`."""
    enough = np.flatnonzero(row >= least)
    if not enough.size:
        enough = rng.choice(np.flatnonzero(row), size=1)
    few = np.setdiff1d(np.flatnonzero((row > 0) & (row < least)), enough)
    moved = int(row[few].sum())
    row[few] = 0
    row += np.bincount(rng.choice(enough, size=moved), minlength=len(row))


def _overflowed(wanted: IntArray, room: IntArray) -> IntArray:
    """Return what each silo takes, users in order: what does not fit goes to the next silo."""
    left, silos = room.copy(), len(room)
    placed = np.zeros_like(wanted)
    for user, row in enumerate(wanted):
        for step in range(silos):
            # What silo s could not take so far knocks at silo s + step.
            into = (np.arange(silos) + step) % silos
            taken = np.minimum(row, left[into])
            row = row - taken
            left[into] -= taken
            placed[user, into] += taken
            if not row.any():
                break
    return placed


def _dealt(room: IntArray, users: int, block: int, rng: Generator) -> IntArray:
    """Return (users, silos): records dealt in blocks of one silo, balanced over the users.

    A silo's last block takes what does not fill another one.
    """
    blocks = np.maximum(room // block, np.minimum(room, 1))
    silo_of = np.repeat(np.arange(len(room)), blocks)
    size = np.full(len(silo_of), block)
    if len(silo_of) < users:
        raise InvalidInput(
            f"{room.sum()} records in {len(room)} silos make {len(silo_of)} blocks of {block} or"
            f" more, too few for {users} users.",
            next_step="Ask for fewer users.",
        )
    # What does not fill another block goes to the silo's last.
    last = np.cumsum(blocks)[blocks > 0] - 1
    size[last] += (room - blocks * block)[blocks > 0]
    holder = rng.permutation(np.arange(len(silo_of)) % users)
    placed = np.zeros((users, len(room)), np.int64)
    np.add.at(placed, (holder, silo_of), size)
    return placed
