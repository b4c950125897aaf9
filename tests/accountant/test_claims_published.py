"""The published formulas, to the digits that the texts print, and against slow oracles."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from privplan.accountant.claims import delm, disco, fedpower, uldp_fl, uldp_leaks
from privplan.accountant.claims import flame_published as flame

from ..cases import for_each

FINALS = (7.8, 3.85, 2.2, 2.0, 1.625, 1.3125, 1.15625)
PRINTED = ("2.85", "7.991", "24.54", "98.79", "450.70", "2151.98", "11416.54")


@for_each(
    ("size", "printed", "final"), list(zip((1, 2, 4, 8, 16, 32, 64), PRINTED, FINALS, strict=True))
)
def test_figure_2_of_uldp_fl(size: int, printed: str, final: float) -> None:
    """Source: arXiv 2308.12210, Figure 2 (k = 1, 32, 64 are printed), sigma 5, 100,000 rounds."""
    found, order = uldp_fl.published_group_rdp_with_illegal_orders(size, rate=0.01, rounds=100_000)
    decimals = len(printed.split(".")[1])
    assert f"{found:.{decimals}f}" == printed
    assert order == pytest.approx(final)
    assert (order < 1.5) == (size >= 32)


@for_each("size", [1, 8])
def test_figure_2_with_another_librarys_divergences(size: int) -> None:
    """dp_accounting's own sampled-Gaussian moments, integer and fractional orders."""
    from dp_accounting.rdp import rdp_privacy_accountant as peer

    orders = [2 * size + step / 10 for step in range(100) if 2 * size + step / 10 < 30]
    values = []
    for order in orders:
        divergence = 1e5 * peer._compute_log_a(0.01, 5.0, order) / (order - 1)
        a = order / size
        if a <= 1:
            continue
        values.append(
            3 ** math.log2(size) * divergence
            - (math.log(1e-5) + math.log(a)) / (a - 1)
            + math.log((a - 1) / a)
        )
    found, _ = uldp_fl.published_group_rdp_with_illegal_orders(size, rate=0.01, rounds=100_000)
    assert found == pytest.approx(min(values), rel=1e-8)


BY_ROUNDS = [(50, 1.0, "7.08"), (100, 1.0, "10.73"), (200, 1.0, "16.51")]
BY_RATE = [(100, 0.1, "0.835"), (100, 0.3, "2.76"), (100, 0.5, "4.86"), (100, 0.7, "7.11")]


@for_each(("rounds", "rate", "printed"), BY_ROUNDS + BY_RATE)
def test_user_level_epsilons_of_uldp_fl(rounds: int, rate: float, printed: str) -> None:
    """Source: arXiv 2308.12210, Theorems 3 and 5, noise 5, delta 1e-5, recomputed."""
    found = uldp_fl.published_user_epsilon(rounds, rate=rate)
    assert f"{found:.{len(printed.split('.')[1])}f}" == printed


def test_legal_orders_would_have_given_more() -> None:
    """Creditcard, k = 64: 147,104 where only orders of at least 2k are taken."""
    found, order = uldp_fl.published_group_rdp_with_illegal_orders(64, rate=1 / 70, rounds=350_000)
    assert order < 1.5
    orders = np.array([2 * 64 + step / 10 for step in range(100)])
    finals = orders / 64
    legal = 3.0**6 * 350_000 * uldp_fl._record_divergence(1 / 70, 5.0, orders)
    least = uldp_fl.published_rdp_epsilon(legal, finals, 1e-5)
    assert round(least) == 147_104
    assert found < least


def test_the_residue_of_protocol_1_does_not_see_the_noise() -> None:
    """The integer V itself, written out: V mod C is what is left of the deltas."""
    rng = np.random.default_rng(0)
    common = math.lcm(*range(1, 21))
    for _ in range(50):
        counts = tuple(int(n) for n in rng.integers(1, 7, 3))
        deltas = tuple(int(d) for d in rng.integers(-1000, 1000, 3))
        noise = int(rng.integers(-(10**9), 10**9))
        exact = sum(
            Fraction(common * n * d, sum(counts)) for n, d in zip(counts, deltas, strict=True)
        )
        assert exact.denominator == 1
        value = int(exact) + common * noise
        assert uldp_leaks.protocol_1_residue(noise, deltas, counts) == value % common
        assert uldp_leaks.protocol_1_residue(0, deltas, counts) == int(exact) % common


def test_the_randomness_of_protocol_1_is_the_servers_own_raised_to_the_deltas() -> None:
    """By phe's Paillier, on another key: the product of randomness, whatever is added."""
    paillier = pytest.importorskip("phe.paillier")
    public, secret = paillier.generate_paillier_keypair(n_length=128)
    n, square = public.n, public.nsquare
    for exponents, added in (((0, 0), 7), ((3, 0), 7), ((3, 0), 10**9), ((2, 5), 0)):
        small = 10_007 * 10_009
        raised = (pow(user, small * e, small**2) for user, e in enumerate(exponents, 2))
        expected = math.prod(raised) % small**2
        assert uldp_leaks.protocol_1_randomness(exponents, added) == expected
        cipher = public.raw_encrypt(added % n, r_value=1)
        for user, exponent in enumerate(exponents, 2):
            cipher = cipher * pow(public.raw_encrypt(1, r_value=user), exponent, square) % square
        left = cipher * pow(1 + n, -secret.raw_decrypt(cipher), square) % square
        assert left == math.prod(pow(u, n * e, square) for u, e in enumerate(exponents, 2)) % square
        assert (left == 1) == (exponents == (0, 0)) == (expected == 1)


FIFTIETH = {"dimensions": 7850, "chosen": 157, "padded_to": 333}
TENTH = {"dimensions": 7850, "chosen": 785, "padded_to": 666}
DELTA = flame.published_delta(1000)


def test_the_numbers_of_flame() -> None:
    """Source: arXiv 2009.08063v4 prints 0.91, 0.24, 20.53, 2.348 and 4.696."""
    assert f"{DELTA:.4e}" == "5.0119e-06"
    assert f"{flame.published_simple(0.01, 1000, 7850):.7f}" == "0.9100562"
    theorem_4 = flame.published_theorem_4_with_double_counting
    assert f"{theorem_4(0.5, delta=DELTA, **FIFTIETH):.7f}" == "0.2379266"
    assert f"{theorem_4(0.5, delta=DELTA, sampling=False, **FIFTIETH):.7f}" == "20.5352544"
    tenth = theorem_4(0.5, delta=DELTA, **TENTH)
    assert f"{tenth:.5f}" == "2.34819"
    assert f"{2 * tenth:.3f}" == "4.696"


def test_figure_3_of_flame() -> None:
    """Source: the ratios 2.55 and 137.36 of arXiv 2009.08063v4, Figure 3; setting inferred."""
    local, users, dimensions = 0.8, 5000, 75_755
    simple = flame.published_simple(local, users, dimensions, lemma_1=True)
    assert f"{dimensions * local / simple:.4f}" == "2.5526"
    given = {"dimensions": dimensions, "chosen": dimensions / 50, "padded_to": 1666}
    sampled = flame.published_theorem_4_with_double_counting(
        local, **given, delta=flame.published_delta(users), amplify="lemma-1"
    )
    assert f"{dimensions / 50 * local / sampled:.3f}" == "137.355"


def test_what_the_correct_bound_would_have_given() -> None:
    """0.928, 0.305, 26.04 and 2.919 with Bennett's bound as it should be."""
    theorem_4 = flame.published_theorem_4_with_double_counting
    each = flame.corrected_bennett(0.01, 1000, DELTA / 7851)
    assert f"{flame.published_composition(each, DELTA / 7851, 7850):.5f}" == "0.92781"
    sound = {"delta": DELTA, "amplify": "bennett"}
    assert f"{theorem_4(0.5, **sound, **FIFTIETH):.5f}" == "0.30451"
    assert f"{theorem_4(0.5, sampling=False, **sound, **FIFTIETH):.4f}" == "26.0431"
    assert f"{theorem_4(0.5, **sound, **TENTH):.3f}" == "2.919"


@for_each("buggy", [True, False])
def test_bennett_against_its_formula_in_high_precision(buggy: bool) -> None:
    local, users, delta = 0.5, 333, 8e-7
    bound = flame.published_buggy_bennett if buggy else flame.corrected_bennett
    epsilon = mpmath.mpf(bound(local, users, delta))
    with mpmath.workdps(40):
        gamma = mpmath.exp(-mpmath.mpf(local) / 2)
        a = mpmath.expm1(epsilon)
        b = mpmath.exp(local / 2) * (1 - mpmath.exp(epsilon - local))
        # The second moment, by quadrature over Laplace densities around 0, 1/2 and 1.
        blanket, one, other = (
            lambda y, x=x: mpmath.mpf(local) / 2 * mpmath.exp(-local * abs(y - x))
            for x in (mpmath.mpf("0.5"), 0, 1)
        )
        c = mpmath.quad(
            lambda y: (one(y) - mpmath.exp(epsilon) * other(y)) ** 2 / blanket(y),
            [-mpmath.inf, 0, 0.5, 1, mpmath.inf],
        )
        u = a * b / c
        phi = (1 + u) * mpmath.log(1 + u) - u
        total = mpmath.mpf(0)
        for m in range(1, users + 1):
            weight = mpmath.binomial(users, m) * gamma**m * (1 - gamma) ** (users - m)
            term = mpmath.exp(-m * c / b**2 * phi) * b / mpmath.log(1 + u)
            total += weight * (term / (a * m) if buggy else term)
        assert float(total / (gamma * users)) == pytest.approx(delta, rel=1e-6)


def test_index_privacy_and_what_rounds_do_to_it() -> None:
    rate = Fraction(1, 50)
    sets = flame.index_sets(1000, 333, rate)
    assert sets == 16
    assert flame.published_index_privacy(1000, 333, rate) == 3.125
    posteriors = [float(flame.posterior_ratio(sets, rate, t) * rate) for t in (1, 2, 3, 5)]
    assert [round(value, 2) for value in posteriors] == [0.06, 0.18, 0.42, 0.88]
    assert posteriors[0] == 0.0625


def test_the_posterior_by_counting_index_sets() -> None:
    """d = 4, k = 1, two disjoint index sets per round: every outcome is listed."""
    seen = agreeing = Fraction(0)
    for own in range(4):
        for decoys in itertools.product([j for j in range(4) if j != own], repeat=2):
            chance = Fraction(1, 4) * Fraction(1, 9)
            if all(0 in {own, decoy} for decoy in decoys):
                seen += chance
                agreeing += chance * (own == 0)
    assert agreeing / seen / Fraction(1, 4) == flame.posterior_ratio(2, Fraction(1, 4), 2)


def test_the_noise_of_disco() -> None:
    """21.7 radii at epsilon 10 over 20 rounds; the formula in high precision."""
    assert f"{disco.published_classical_multiplier(10.0, 20):.1f}" == "21.7"
    exact = 2 * mpmath.sqrt(2 * mpmath.log(mpmath.mpf("1.25e5") * 20)) / (mpmath.mpf(10) / 20)
    assert disco.published_classical_multiplier(10.0, 20) == pytest.approx(float(exact), rel=1e-14)


def test_the_theorems_of_fedpower() -> None:
    """Sensitivity 12.65 and noise 61.3 where the paper says epsilon 1; 92 rounds say 92."""
    assert f"{fedpower.PUBLISHED_SENSITIVITY:.2f}" == "12.65"
    noise = fedpower.published_noise(1.0)
    assert f"{noise:.1f}" == "61.3"
    assert fedpower.published_epsilon(noise, fedpower.PUBLISHED_SENSITIVITY) == pytest.approx(1.0)
    assert fedpower.published_total(1.0, 92) == pytest.approx((92.0, 92e-5))


def test_one_rating_moves_the_product_as_far_as_is_said() -> None:
    """M Z before and after, multiplied out."""
    before = np.full(338, 5.0)
    before[-1] = 0.0
    after = np.full(338, 5.0)
    z = np.full((338, 1), math.sqrt((1 - 0.04) / 337))
    z[-1] = 0.2
    assert z[:, 0] @ z[:, 0] == pytest.approx(1.0)
    assert np.abs(z).max() <= 0.2
    assert after @ after <= fedpower.ROW_NORM**2
    moved = (np.outer(after, after) - np.outer(before, before)) @ z / 9
    assert np.linalg.norm(moved) == pytest.approx(fedpower.rating_shift(), rel=1e-12)
    assert np.abs(np.outer(after, after) / 9).max() <= 20.0


def test_the_total_of_delm() -> None:
    """max(0.6 + 1.2/3, 3/3) = 1; unexpanded 0.573 and 1.996."""
    assert delm.published_total(0.6, 1.2, 3.0) == 1.0
    assert f"{delm.published_layer_amplification_unexpanded(1.2):.3f}" == "0.573"
    assert f"{delm.published_layer_amplification_unexpanded(3.0):.3f}" == "1.996"


@for_each("users", [1, 2, 7])
def test_the_event_that_all_messages_agree(users: int) -> None:
    """The whole law of the count of 1s, for binary randomized response: epsilon is its worst."""
    epsilon = 1.2
    p = 1 / (1 + math.exp(-epsilon))

    def law(value: int) -> np.ndarray:
        found = np.array([1.0])
        for truth in [1] * (users - 1) + [value]:
            yes = p if truth else 1 - p
            found = np.convolve(found, [1 - yes, yes])
        return found

    losses = np.abs(np.log(law(1) / law(0)))
    assert losses.max() == pytest.approx(epsilon, rel=1e-12)
    assert delm.all_equal_loss(epsilon, users) == pytest.approx(epsilon, rel=1e-12)
