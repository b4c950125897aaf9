"""How likely a random graph fails: exact tails of the hypergeometric distribution.

n parties stand on a circle in a random order, and each is joined to its k/2 nearest on either side
(a Harary graph).  c of them collude with the server and d drop out, fixed before the order is
drawn.  Each party's secrets are shared among itself and its k neighbours, any t of whom restore
them.  What can go wrong, summed over all parties or places, so that dependence does not matter:

- *exposed*: an honest party has t colluding neighbours, who know its secrets by themselves:
  n P[H(n-1, c, k) >= t];
- *split*: honest survivors fall into two groups, whose sums the server could tell apart.  Only two
  runs of k/2 places, all of them colluding or dropped out, cut the circle:
  n (n-k-1)/2 C(n-k, c+d-k) / C(n, c+d);
- *one-sided*: colluders near a party are so many that a server which lies about who dropped out
  can cut the circle, see `one_sided`;
- *lost*: fewer than t of those who hold a party's shares are left, so that the round fails:
  (n-d) P[H(n-1, d, k) >= k+2-t] + d P[H(n-1, d-1, k) >= k+1-t].

H(N, M, k) counts the marked ones among k drawn from N of which M are marked.  Everything is
computed in integers and compared as fractions: nothing is rounded.

Source: Bell, Bonawitz, Gascon, Lepoint, Raykova 2020, *Secure single-server aggregation with
(poly)logarithmic overhead*, CCS 2020, section 3; the last bound, and what follows in `one_sided`,
derived here.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb


def exposed(parties: int, colluders: int, degree: int, threshold: int) -> Fraction:
    """Return a bound on the chance that colluders alone hold some honest party's secrets."""
    return parties * _tail(parties - 1, colluders, degree, threshold)


def split(parties: int, colluders: int, dropouts: int, degree: int) -> Fraction:
    """Return a bound on the chance that honest survivors are not connected."""
    bad = colluders + dropouts
    if degree >= parties - 1 or bad < degree:
        return Fraction(0)
    pairs = Fraction(parties * (parties - degree - 1), 2)
    return min(Fraction(1), pairs * Fraction(comb(bad, degree), comb(parties, degree)))


def one_sided(parties: int, colluders: int, degree: int, threshold: int) -> Fraction:
    """Return a bound on the chance that a server that lies can sum up fewer than it says.

        n P[H(n, c, k/2) >= t - k/2 - 1]

    Suppose no run of k/2 places holds t - k/2 - 1 colluders.  The server wants the sum over a set
    A of honest survivors that are not all of them, so no mask may be left between A and the
    others.  Go round the circle to two honest survivors next to each other, one in A and one not:
    no edge joins them, so they are more than k/2 places apart.  Those who can restore the first
    one's own mask are then itself, at most k/2 on its one side, and the colluders on its other
    side: fewer than t.  So its mask stays, whoever the server says has dropped out.

    Some may have been shown other lists than those that were signed.  They give nothing away.  Of
    the at least t - c_u - 1 honest neighbours that such a party masks with and the at least t - c_u
    that answer for it, one is both, because 2t > k + c_u + 1; so A holds one who saw what was
    signed, and among these the argument goes as before.  All of them that survive are in A.
    """
    half = degree // 2
    return parties * _tail(parties, colluders, half, threshold - half - 1)


def lost(parties: int, dropouts: int, degree: int, threshold: int) -> Fraction:
    """Return a bound on the chance that some party's secrets can no longer be restored.

    A survivor holds a share of its own secrets, a party that dropped out does not.
    """
    survivors = (parties - dropouts) * _tail(parties - 1, dropouts, degree, degree + 2 - threshold)
    if not dropouts:
        return survivors
    gone = dropouts * _tail(parties - 1, dropouts - 1, degree, degree + 1 - threshold)
    return survivors + gone


def _tail(population: int, marked: int, drawn: int, least: int) -> Fraction:
    """Return P[H(population, marked, drawn) >= least]."""
    if least <= 0:
        return Fraction(1)
    above, total = _counts(population, marked, drawn)
    return Fraction(above[least], total) if least < len(above) else Fraction(0)


@lru_cache(maxsize=16)
def _counts(population: int, marked: int, drawn: int) -> tuple[tuple[int, ...], int]:
    """Return how many draws have at least j marked ones, for each j, and how many there are.

    Each count of exactly j follows from the one before by a factor, which divides without rest.
    """
    unmarked = population - marked
    first = max(0, drawn - unmarked)
    last = min(marked, drawn)
    exactly = [0] * (last + 1)
    exactly[first] = comb(marked, first) * comb(unmarked, drawn - first)
    # C(M, j+1) C(N-M, k-j-1) from C(M, j) C(N-M, k-j): an exact quotient of integers.
    for j in range(first, last):
        above = exactly[j] * (marked - j) * (drawn - j)
        exactly[j + 1] = above // ((j + 1) * (unmarked - drawn + j + 1))
    # From the top down, so that each becomes the number of draws with at least j.
    for j in range(last, 0, -1):
        exactly[j - 1] += exactly[j]
    return tuple(exactly), exactly[0]
