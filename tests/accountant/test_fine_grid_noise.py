"""Noise on the grid of the weights: its law, its tails, its shares, and every residue covered.

Statistical tests use seeded streams; on a fresh seed each fails with probability 1e-6 at most.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput, PrivplanError, Unsupported
from privplan.accountant.mechanisms import FineGaussian, Gate, RoundDescription
from privplan.accountant.randomness import Streams

from ..cases import for_each
from ..chance import limits
from .fine_grids import FORTY, TWENTY, of
from .mechanism_tickets import LEAST_P, Memory, ticket_for


@for_each("multiple", [1, 60, FORTY, math.lcm(*range(1, 201))])
def test_shares_and_their_sum_have_the_stated_law(multiple: int) -> None:
    own, count = of(multiple=multiple, std=5.0), 20_000
    ticket = ticket_for(own)
    shares = [own.share(ticket, count, f"noise/{party}") for party in range(4)]
    assert {type(z) for z in shares[0]} == {int}
    for share in shares:
        assert stats.kstest(own.units(share) / own.share_std, "norm").pvalue > LEAST_P
    total = own.units([sum(each) for each in zip(*shares, strict=True)])
    assert stats.kstest(total / own.std, "norm").pvalue > LEAST_P
    low, high = limits(stats.chi2(count), looks=100)
    assert low < np.sum((total / own.std) ** 2) < high
    ticket.close()


def test_tails_have_room_and_are_never_met() -> None:
    own = of()
    deviation = Fraction(own.share_std) / own.step
    assert 40 * deviation < own.tail < 40 * deviation * (1 + Fraction(1, 10**6))
    assert max(map(abs, own.share(ticket_for(own), 100_000, "a"))) < own.tail // 5


def test_noise_that_does_not_fit_ends_the_round_and_is_not_shown() -> None:
    memory, own = Memory(), of()
    own.__dict__["tail"] = 10**9  # room for next to none of the noise
    with (
        pytest.raises(PrivplanError, match="does not fit") as caught,
        ticket_for(own, memory=memory) as ticket,
    ):
        own.share(ticket, 5, "a")
    noise = of().share(ticket_for(of()), 5, "a")
    assert not any(str(abs(z)) in str(caught.value) for z in noise)
    assert [type(one) for one in memory.lines] == [records.RoundIntent, records.RoundAbort]


def test_noise_that_does_not_fit_ends_the_round_even_where_the_error_is_caught() -> None:
    memory, own = Memory(), of()
    own.__dict__["tail"] = 1
    with ticket_for(own, memory=memory) as ticket:
        with pytest.raises(PrivplanError, match="does not fit"):
            own.share(ticket, 5, "a")
        with pytest.raises(PrivplanError, match="over"):
            own.share(ticket, 5, "b")
    assert [type(one) for one in memory.lines] == [records.RoundIntent, records.RoundAbort]


def test_the_tail_is_the_last_that_fits_on_both_sides() -> None:
    signs = set()
    for seed in range(1, 9):
        (noise,) = of().share(ticket_for(of(), seed=seed), 1, "a")
        signs.add(noise > 0)
        for room in (abs(noise), abs(noise) - 1):
            own = of()
            own.__dict__["tail"] = room
            if room == abs(noise):
                assert own.share(ticket_for(own, seed=seed), 1, "a") == [noise]
            else:
                with pytest.raises(PrivplanError, match="does not fit"):
                    own.share(ticket_for(own, seed=seed), 1, "a")
    assert signs == {True, False}


def test_shares_are_counted() -> None:
    memory, own = Memory(), of()
    ticket = ticket_for(own, memory=memory)
    for party in range(4):
        own.share(ticket, 3, f"noise/{party}")
    with pytest.raises(Unsupported, match="announces 1 draws"):
        own.share(ticket, 3, "noise/4")
    ticket.close()
    release = memory.lines[-1]
    assert isinstance(release, records.RoundRelease)
    assert (release.shares, release.draws, len(release.streams)) == (4, 1, 4)


def test_one_party_does_not_draw_two_shares() -> None:
    own = of(tolerated_dropouts=2)
    ticket = ticket_for(own)
    own.share(ticket, 3, "a")
    position = ticket.stream("a").position
    with pytest.raises(InvalidInput, match="its share of this sum already"):
        own.share(ticket, 3, "a")
    assert ticket.stream("a").position == position
    with pytest.raises(Unsupported, match="a sum has 1"):
        ticket.close()
    own.share(ticket, 3, "b")
    ticket.close()


def test_a_party_has_one_share_in_each_of_several_sums() -> None:
    own = of(shares=2)
    ticket = ticket_for(own, draws=2)
    drawn = [own.share(ticket, 3, name) for _ in range(2) for name in ("a", "b")]
    assert len(set(map(tuple, drawn))) == 4
    ticket.close()


def test_a_share_that_could_not_be_drawn_does_not_count() -> None:
    own = of(shares=2)
    gate = Gate(None, Memory(), Streams.seeded(1))
    about = RoundDescription(1, "test", event_override=ev.NoGuarantee("a test"))
    one, other = (gate.open(own.intent(about, "add-remove")) for _ in range(2))
    own.share(one, 3, "a")
    with pytest.raises(InvalidInput, match="in use"):
        own.share(other, 3, "a")
    own.share(other, 3, "b")
    with pytest.raises(Unsupported, match="a sum has 1"):
        other.close()


def test_a_round_needs_the_shares_that_it_promises() -> None:
    own = of(tolerated_dropouts=1)
    ticket = ticket_for(own)
    for party in range(3):
        if party == 2:
            with pytest.raises(Unsupported, match="a sum has 2"):
                ticket.close()
        own.share(ticket, 3, f"noise/{party}")
    ticket.close()


def test_it_is_for_the_mechanism_of_the_ticket() -> None:
    own = of()
    plain = own._plain
    for other in (of(std=2.0), of(multiple=TWENTY), of(digits=17), of(shares=5)):
        with pytest.raises(Unsupported, match="another mechanism"):
            other.share(ticket_for(own), 3, "a")
    with pytest.raises(Unsupported, match="another mechanism"):
        own.share(ticket_for(plain), 3, "a")
    with pytest.raises(Unsupported, match="another mechanism"):
        plain.share(ticket_for(own), np.zeros(3, np.int64), "a")
    with pytest.raises(InvalidInput, match="count"):
        own.share(ticket_for(own), 0, "a")


USERS_ROWS = np.linspace(-0.2, 0.3, 3 * 2 * 5).reshape(6, 5)
"""The updates of three users in two silos."""


def decrypted(
    own: FineGaussian, noise: list[int], users: int, *, published: bool = False
) -> list[int]:
    """What is decrypted for two silos and the first of three users; `published`: noise times m.

    The users have 5, 2 and 7 records in all.
    """
    m, found = own.multiple, [0] * len(noise)
    counts = [(3, 2), (1, 1), (4, 3)][:users]
    rows = own.clipped(USERS_ROWS)
    for user, count in enumerate(counts):
        for silo in range(2):
            weight = m * count[silo] // sum(count)
            digits = np.resize(rows[2 * user + silo], len(noise)).tolist()
            found = [v + weight * d for v, d in zip(found, digits, strict=True)]
    return [v + (m * z if published else z) for v, z in zip(found, noise, strict=True)]


def p_values_of_residues(values: list[int], multiple: int) -> list[float]:
    """The p-values that V mod m is uniform: as a fraction of m, and mod the divisors of m."""
    residues = [v % multiple for v in values]
    found = [float(stats.kstest([r / multiple for r in residues], "uniform").pvalue)]
    for modulus in (7, 9, 16):
        counts = np.bincount([r % modulus for r in residues], minlength=modulus)
        found.append(float(stats.chisquare(counts).pvalue))
    return found


@for_each("users", [2, 3])
@for_each("multiple", [2**4 * 9 * 7, TWENTY, FORTY])
def test_what_is_decrypted_is_uniform_in_every_residue(users: int, multiple: int) -> None:
    own = of(multiple=multiple, shares=2)
    ticket = ticket_for(own)
    shares = [own.share(ticket, 20_000, name) for name in ("a", "b")]
    noise = [sum(each) for each in zip(*shares, strict=True)]
    assert min(p_values_of_residues(decrypted(own, noise, users), multiple)) > LEAST_P


def test_noise_in_multiples_leaves_residues_without_any() -> None:
    """The published form: however much noise, the residue is one number, and tells who is there."""
    own, residues = of(shares=1), []
    for users in (2, 3):
        seen = set()
        for seed in (1, 2):
            noise = own.share(ticket_for(own, seed=seed), 5, "a")
            values = decrypted(own, noise, users, published=True)
            seen.add(tuple(v % own.multiple for v in values))
        assert len(seen) == 1
        residues.append(seen.pop())
    # Only the third user has a count that 7 divides: mod 7 it is alone, and its digits are read.
    assert [r % 7 for r in residues[0]] == [0] * 5
    one, other = own.clipped(USERS_ROWS)[-2:]
    unit = pow(own.multiple // 7, -1, 7)
    assert [r * unit % 7 for r in residues[1]] == ((4 * one + 3 * other) % 7).tolist()
    assert any(r % 7 for r in residues[1])
    noise = own.share(ticket_for(own), 20_000, "a")
    with_multiples = decrypted(own, noise, 3, published=True)
    assert max(p_values_of_residues(with_multiples, own.multiple)) < LEAST_P


@for_each("width", [0.5, 0.6, 0.9])
def test_residues_are_as_uniform_as_the_module_says(width: float) -> None:
    """Exactly, for noise as wide as so many multiples, and small ones."""
    m, s = 12, 12 * width
    masses = [math.exp(-z * z / (2 * s * s)) for z in range(-120, 120)]
    residues = np.array(masses).reshape(-1, m).sum(axis=0) / sum(masses)
    allowed = 3 * math.exp(-2 * math.pi**2 * width**2)
    assert 0.3 * allowed < np.abs(m * residues - 1).max() < allowed
