"""Scores of attacks: against slow oracles, against theory, on models that learned nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privplan.accountant.errors import InvalidInput
from privplan.audit.attack_methods.membership import ATTACKS, Evidence, per_unit, trials_of
from privplan.audit.attack_methods.membership.evidence import matched
from privplan.audit.attack_methods.membership.scores import (
    OFFLINE_SCALES,
    lira_offline,
    lira_online,
    ratio,
    reference_areas,
    relative,
    rmia,
    scores,
    tuned,
)
from privplan.audit.attack_methods.membership.tier import loss
from privplan.audit.attack_methods.membership.trials import area
from privplan.audit.shadows import design
from privplan.fl.training.metrics import roc_auc

from ..cases import for_each
from ..chance import FALSE_ALARM


def simulated(*, users=40, each=5, models=24, targets=8, shift=0.0, population=50, seed=0):
    """Return phi of records as hard as they are, moved by `shift` where they are in a model."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(users), each)
    plan = design(users, models=models, targets=targets, rng=rng)
    hard = rng.normal(1.0, 2.0, len(unit))
    phi = hard + rng.normal(size=(models, len(unit))) + shift * plan.inside_records(unit)
    others = rng.normal(1.0, 2.0, population) + rng.normal(size=(models, population))
    cut = models - targets
    return Evidence(plan, unit, unit, phi[:cut], phi[cut:], others[:cut], others[cut:])


@for_each("pooled", [False, True])
def test_lira_is_its_formula_record_by_record(pooled):
    own = simulated(users=3, each=2, models=14, targets=2, shift=1.0)
    inside = own.in_shadow
    found, offline = lira_online(own, pooled=pooled), lira_offline(own, pooled=pooled)
    sides = {
        side: [own.shadows[inside[:, x] == side, x] for x in range(6)] for side in (True, False)
    }

    def normal(side, x):
        squares = [((one - one.mean()) ** 2).sum() for one in sides[side]]
        freedom = [len(one) - 1 for one in sides[side]]
        s = np.sqrt(sum(squares) / sum(freedom) if pooled else squares[x] / freedom[x])
        return stats.norm(np.median(sides[side][x]), s)

    for target in range(2):
        for x in range(6):
            phi = own.targets[target, x]
            likely, unlikely = normal(True, x), normal(False, x)
            expected = likely.logpdf(phi) - unlikely.logpdf(phi)
            assert found[target, x] == pytest.approx(expected)
            assert stats.norm.cdf(offline[target, x]) == pytest.approx(unlikely.cdf(phi))


def test_lira_pools_where_shadows_are_few():
    few, many = simulated(models=24), simulated(models=80)
    assert np.array_equal(lira_online(few), lira_online(few, pooled=True))
    assert np.array_equal(lira_online(many), lira_online(many, pooled=False))
    assert not np.array_equal(lira_online(many), lira_online(many, pooled=True))


def test_rmia_is_its_formula_record_by_record():
    own = simulated(users=3, each=2, models=8, targets=2, shift=1.0, population=7)

    def p(phi):
        return 1.0 / (1.0 + np.exp(-phi))

    a, gamma, outside = 0.3, 2.0, ~own.in_shadow
    found = scores(
        (own.targets, own.targets_population),
        (own.shadows, own.shadows_population),
        outside,
        a,
        lambda x, z: relative(x, z, gamma=gamma),
    )
    for target in range(2):
        usual_z = ((1 + a) * p(own.shadows_population).mean(0) + 1 - a) / 2
        of_z = p(own.targets_population[target]) / usual_z
        for x in range(6):
            mean = p(own.shadows[outside[:, x], x]).mean()
            of_x = p(own.targets[target, x]) / (((1 + a) * mean + 1 - a) / 2)
            assert found[target, x] == pytest.approx((of_x / of_z > gamma).mean())


def test_rmia_takes_no_underflow_for_zero():
    own = simulated(users=3, models=8, targets=2)
    far = replace(own, shadows=own.shadows - 2000.0, targets=own.targets - 2000.0)
    for a in OFFLINE_SCALES:
        found = scores(
            (far.targets, far.targets_population),
            (far.shadows, far.shadows_population),
            ~far.in_shadow,
            a,
            ratio,
        )
        assert np.isfinite(found).all()


@for_each("level", ["user", "record"])
def test_rmia_is_tuned_without_a_look_at_the_targets(level):
    own = simulated(shift=1.0)
    other = replace(
        own,
        targets=-3.0 * own.targets,
        targets_population=own.targets_population + 7.0,
        design=replace(own.design, targets=~own.design.targets),
    )
    for statistic in (relative, ratio):
        assert tuned(own, level=level, statistic=statistic) == tuned(
            other, level=level, statistic=statistic
        )


@for_each("level", ["user", "record"])
def test_rmia_is_tuned_on_a_shadow_against_all_pairs_but_its_own(level):
    own = simulated(users=20, models=7, targets=1, shift=1.0)  # three pairs
    expected = np.zeros(len(OFFLINE_SCALES))
    for mine in range(6):
        others = [one for one in range(6) if one // 2 != mine // 2]
        for place, a in enumerate(OFFLINE_SCALES):
            made = scores(
                (own.shadows[[mine]], own.shadows_population[[mine]]),
                (own.shadows[others], own.shadows_population[others]),
                ~own.in_shadow[others],
                a,
                relative,
            )
            members = own.in_shadow[mine]
            if level == "user":
                made, members = per_unit(made, own.unit, 20), own.design.shadows[mine]
            expected[place] += roc_auc(members, made[0]) / 6
    assert reference_areas(own, level=level) == pytest.approx(expected)
    assert tuned(own, level=level) == OFFLINE_SCALES[int(expected.argmax())]


def test_rmia_takes_what_is_usual_from_shadows_without_the_record():
    own = simulated(shift=1.0)
    for statistic in (relative, ratio):
        expected = scores(
            (own.targets, own.targets_population),
            (own.shadows, own.shadows_population),
            ~own.in_shadow,
            tuned(own, level="user", statistic=statistic),
            statistic,
        )
        assert np.array_equal(rmia(own, level="user", statistic=statistic), expected)


def test_the_loss_threshold_is_minus_the_loss():
    own = simulated()
    assert loss(own) == pytest.approx(np.log(1.0 / (1.0 + np.exp(-own.targets))))


@for_each("attack", ATTACKS)
@for_each("level", ["user", "record"])
def test_models_that_learned_nothing_tell_nobody(attack, level):
    """Ten intervals, which all hold 1/2 but with chance 1e-6."""
    found = area(trials_of(simulated(users=100, seed=5), attack, level), alpha=FALSE_ALARM / 10)
    assert found.lower < 0.5 < found.upper


@for_each("attack", ["rmia", "ratio", "lira", "lira-offline"])
def test_a_user_is_told_better_than_one_of_their_records(attack):
    own = simulated(users=100, shift=0.5, seed=6)
    user, record = (area(trials_of(own, attack, level)) for level in ("user", "record"))
    assert record.lower > 0.5
    assert user.lower > record.upper


def test_lira_on_normal_scores_reaches_what_theory_says():
    # The sum of k log likelihood ratios of N(d, 1) to N(0, 1) has AUC Phi(d sqrt(k / 2)).
    own = simulated(users=200, each=4, models=300, targets=20, shift=0.5, seed=7)
    for level, k in (("record", 1), ("user", 4)):
        found = area(trials_of(own, "lira", level), alpha=1e-3)
        ideal = stats.norm.cdf(0.5 * np.sqrt(k / 2))
        assert found.lower < ideal + 0.005
        assert found.upper > ideal - 0.02  # what 280 shadows still miss


def test_a_target_among_the_shadows_is_refused():
    own = simulated()
    with pytest.raises(InvalidInput, match="same model as one of the shadows"):
        replace(own, targets=np.concatenate([own.targets[:-1], own.shadows[:1]]))


def test_coins_that_a_target_shares_with_a_shadow_would_be_found_as_members():
    # The pitfall itself: models learned nothing, but one shadow starts from what the target did.
    own = simulated(users=100, seed=8)
    shared = replace(
        own,
        design=replace(own.design, targets=own.design.shadows[: len(own.targets)]),
        targets=own.shadows[: len(own.targets)] + 1e-9,
    )
    assert area(trials_of(shared, "lira", "user"), alpha=1e-4).lower > 0.5


@for_each("name", ["shadows", "targets", "shadows_population", "targets_population"])
@for_each("value", [np.nan, np.inf])
def test_models_that_diverged_are_refused(name, value):
    own = simulated()
    broken = getattr(own, name).copy()
    broken[0, 1] = value
    with pytest.raises(InvalidInput, match=f"`{name}` has 1 value"):
        replace(own, **{name: broken})


def test_tables_that_do_not_fit_are_refused():
    own = simulated()
    with pytest.raises(InvalidInput, match="targets_population"):
        replace(own, targets_population=own.targets_population[:, 1:])
    with pytest.raises(InvalidInput, match="unit"):
        replace(own, unit=own.unit + 1)


def test_a_user_has_the_sum_over_their_records_in_all_silos():
    rows = np.arange(12.0).reshape(2, 6)
    unit = np.array([1, 0, 1, 2, 0, 1])
    expected = [[sum(row[unit == one]) for one in range(3)] for row in rows]
    assert per_unit(rows, unit, 3).tolist() == expected


def test_a_user_without_records_is_refused_and_so_is_nan():
    with pytest.raises(InvalidInput, match="without records"):
        per_unit(np.ones((1, 2)), np.array([0, 2]), 3)
    with pytest.raises(InvalidInput, match="NaN"):
        per_unit(np.array([[1.0, np.nan]]), np.array([0, 1]), 2)


def test_pseudo_users_have_the_sizes_of_users_and_share_no_record():
    sizes = np.array([3, 1, 7, 2, 5])
    for seed in range(20):
        taken, pseudo = matched(sizes, 9, np.random.default_rng(seed))
        assert len(set(taken)) == len(taken)
        assert np.bincount(pseudo[pseudo >= 0], minlength=len(taken)).tolist() == (
            sizes[taken].tolist()
        )


def test_rmia_of_few_shadows_runs_and_of_none_without_a_record_is_refused():
    own = simulated(users=10, models=6, targets=2)
    assert rmia(own, level="user").shape == own.targets.shape
    with pytest.raises(InvalidInput, match="all of the shadows"):
        scores(
            (own.targets, own.targets_population),
            (own.shadows, own.shadows_population),
            np.zeros_like(own.in_shadow),
            0.0,
            relative,
        )
