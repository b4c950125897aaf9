"""Uldp-FL's weaknesses: the missing factor, and what Protocol 1 shows; exact laws and controls."""

from __future__ import annotations

import importlib
import math
import re
import sys

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2

from privplan.accountant.claims import uldp_fl
from privplan.accountant.errors import MissingExtra
from privplan.audit.demos import naive_factor as naive
from privplan.audit.demos import run_demo
from privplan.audit.statistics import epsilon_lower, gdp_epsilon, mu_lower

from ..cases import for_each

# --- the missing factor ---------------------------------------------------------------------------


def test_a_round_is_the_printed_algorithm() -> None:
    """Clipped to +-C, averaged over silos, noise sigma C of the mean: alarms 1e-4 on each side."""
    rng, runs = np.random.default_rng(1), 100_000
    assert naive.local_updates(np.array([naive.PULL]))[0] > 10 * naive.NAIVE_CLIP
    updates = np.broadcast_to([[0.05], [3.0], [-7.0], [0.0]], (runs, 4, 1))
    steps = naive.published_naive_round(updates, rng, noise_multiplier=5.0, clip=0.1)
    centred = (steps[:, 0] - (0.05 + 0.1 - 0.1) / 4.0) / (5.0 * 0.1)
    assert abs(float(centred.mean())) < 4.0 / math.sqrt(runs)
    assert 1e-4 < chi2.cdf(float((centred**2).sum()), runs) < 1.0 - 1e-4


def test_scores_are_gaussian_with_unit_variance_and_twice_the_claimed_distance() -> None:
    rng, runs = np.random.default_rng(2), 20_000
    present, absent = (naive.scores(here, runs, 100, rng) for here in (True, False))
    assert naive.exact_mu(100) == 4.0
    for found, mean in ((present, 2.0), (absent, -2.0)):
        assert float(found.mean()) == pytest.approx(mean, abs=5.0 / math.sqrt(runs))
        assert 1e-4 < chi2.cdf(float(((found - mean) ** 2).sum()), runs) < 1.0 - 1e-4


def test_the_missing_factor_contradicts_the_claim() -> None:
    found = run_demo("naive-factor", 3)
    full, short = found.measurements
    assert found.exact[0] == pytest.approx(24.38, abs=0.01)
    assert full.claimed == pytest.approx(10.73, abs=0.01)
    assert full.contradicted
    assert 23.0 < full.value < found.exact[0]
    assert short.contradicted
    assert uldp_fl.published_user_epsilon(20) < short.value < found.exact[1]
    row = next(row() for row in uldp_fl.ROWS if row().setting == naive.DEMO.rows[0])
    assert row.lower is not None
    assert full.value < row.lower


def test_the_printed_mu_is_no_larger_than_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rounded to the nearest, 3.92875 would be told as 3.929, or 3.93."""
    full = naive.Counts(468, 20_000, 436, 20_000)
    short = naive.Counts(3, 200_000, 198_710, 200_000)
    monkeypatch.setattr(naive, "counted", lambda _, rounds, *__: full if rounds > 50 else short)
    found = run_demo("naive-factor")
    mu = mu_lower(full)
    assert round(mu, 2) > round(mu, 3) > mu
    (told,) = re.findall(r"at least ([\d.]+) was measured", " ".join(found.story))
    assert 0.999 * mu < float(told) == found.measurements[0].sample["mu at least"] <= mu


def test_twice_the_noise_is_not_contradicted() -> None:
    """The control: then mu is 2, epsilon 10.00, and the claims 10.73 and 4.16 hold."""
    rng = np.random.default_rng(4)
    counted = []
    for runs, rounds, threshold in ((20_000, 100, 0.0), (200_000, 20, 3.0)):
        present, absent = (naive.scores(here, runs, rounds, rng, factor=2.0) for here in (1, 0))
        hits, alarms = int((present > threshold).sum()), int((absent > threshold).sum())
        counted.append(naive.Counts(alarms, runs, runs - hits, runs))
    # Scores are in units of half the noise now: N(+-2, 2^2), so the distance is 2 of them.
    full, short = counted
    assert 1.9 < mu_lower(full) < 2.0
    assert gdp_epsilon(mu_lower(full), uldp_fl.DELTA) < uldp_fl.published_user_epsilon(100)
    assert epsilon_lower(short, delta=uldp_fl.DELTA) < uldp_fl.published_user_epsilon(20)


def test_the_short_runs_threshold_is_passed_twice_without_the_user() -> None:
    half = naive.exact_mu(naive.SHORT_ROUNDS) / 2.0
    alarms = naive.SHORT_RUNS * ndtr(-half - naive.short_threshold())
    assert float(alarms) == pytest.approx(2.0, rel=1e-9)


# --- Protocol 1 -----------------------------------------------------------------------------------


@pytest.fixture
def protocol():
    for name in ("phe", "gmpy2", "cryptography", "nacl", "msgpack"):
        pytest.importorskip(name)
    from privplan.audit.demos import published_weighting

    return published_weighting


def test_the_sum_is_the_published_one(protocol) -> None:
    """What the server decrypts is the noise-free sum plus a multiple of C_LCM."""
    from privplan.audit.attack_methods import transcripts
    from privplan.audit.demos import noise_free_residue as residue

    session = protocol.one_session()
    for number, deltas in enumerate((residue.UPDATES_WITH_USER, residue.UPDATES_WITHOUT_USER), 1):
        sent = protocol.one_round(session, number, deltas, np.random.default_rng(5))
        value = transcripts.decrypted_sums(sent, session.primes)[0]
        counts = np.array(protocol.COUNTS)
        weights = counts / counts.sum(axis=1, keepdims=True)
        plain = float(np.einsum("us,su->", weights, deltas[:, :, 0]))
        noise = np.random.default_rng(5).normal(0.0, 5.0 / math.sqrt(2), (2, 1)).sum()
        decoded = value * protocol.REPLAYED_FIXED_POINT_STEP / protocol.MULTIPLE
        assert decoded == pytest.approx(plain + noise, abs=4 * protocol.REPLAYED_FIXED_POINT_STEP)
        assert [value % protocol.MULTIPLE] == protocol.noise_free(deltas)


def test_the_users_residue_is_another_one_with_and_without(protocol) -> None:
    """So a false alarm is impossible, and the epsilon infinite."""
    from privplan.audit.demos import noise_free_residue as residue

    with_user, without = (
        protocol.noise_free(one)[0]
        for one in (residue.UPDATES_WITH_USER, residue.UPDATES_WITHOUT_USER)
    )
    assert with_user != without
    assert (with_user - without) % (protocol.MULTIPLE // 7) == 0


@pytest.mark.usefixtures("protocol")
@for_each("name", ["paillier-randomness", "noise-free-residue"])
def test_protocol_1_contradicts_the_claim(name: str, monkeypatch) -> None:
    module = importlib.import_module(f"privplan.audit.demos.{name.replace('-', '_')}")
    monkeypatch.setattr(module, "SESSIONS", 40)
    endless, by_counts, delta = run_demo(name, 1).measurements
    assert endless.value == math.inf
    assert endless.claimed == pytest.approx(10.73, abs=0.01)
    assert by_counts.claimed == pytest.approx(0.79, abs=0.01)
    assert by_counts.value == pytest.approx(math.log(0.9119 / 0.0881), abs=0.01)
    assert all(one.contradicted for one in (endless, by_counts, delta))
    assert 0.6 < delta.value < 1.0


@pytest.mark.parametrize("present", [True, False])
def test_fresh_randomness_hides_who_moved(present: bool, protocol, monkeypatch) -> None:
    """The control: every silo multiplies in randomness of its own."""
    from privplan.audit.demos import paillier_randomness as demo

    moduli: list[int] = []

    def refreshed(session, number, deltas, rng):
        moduli.append(session.modulus)
        square = session.modulus**2
        return {
            silo: [
                one * pow(int.from_bytes(rng.bytes(64), "big"), session.modulus, square) % square
                for one in own
            ]
            for silo, own in protocol.one_round(session, number, deltas, rng).items()
        }

    rng = np.random.default_rng(6)
    assert demo.moved(present, rng) == present
    monkeypatch.setattr(demo, "one_round", refreshed)
    assert all(demo.moved(present, rng) for _ in range(10))
    assert len(moduli) == 10


@pytest.mark.parametrize("present", [True, False])
def test_noise_on_every_residue_hides_the_user(present: bool, protocol, monkeypatch) -> None:
    """The control: one silo adds a uniform number below C_LCM to the plaintext."""
    from privplan.audit.demos import noise_free_residue as demo

    def covered(session, number, deltas, rng):
        n = session.modulus
        sent = protocol.one_round(session, number, deltas, rng)
        added = int(rng.integers(protocol.MULTIPLE))
        sent["silo-0"] = [one * (1 + n * added) % n**2 for one in sent["silo-0"]]
        return sent

    rng = np.random.default_rng(7)
    assert demo.recognised(present, rng) == present
    monkeypatch.setattr(demo, "one_round", covered)
    # A residue is met by chance once in 27,720 rounds.
    assert not any(demo.recognised(present, rng) for _ in range(10))


def test_without_phe_the_protocol_says_what_to_install(protocol, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "phe", None)
    with pytest.raises(MissingExtra, match="phe"):
        protocol.one_session()
