"""What four peers say of scores in a file: run by an interpreter that has them.

    PEERS/bin/python bench/score_peers.py SOURCES SCORES.npz...

SOURCES holds `advanced_mia.py` and `epsilon_lower_bound.py` of tensorflow/privacy and `attacks.py`
of privacytrustlab/ml_privacy_meter, whose packages need more than these files do.  PrivacyGuard
(`privacyguard-platform`) and ART (`adversarial-robustness-toolbox`) are installed.  A line of JSON
is printed for each file: what each peer says by its defaults, and its seconds of CPU; or why it is
missing.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import auc, roc_curve

DELTA = 1e-5
RATE = 0.01
BOOTSTRAPS = 100

Answer = dict[str, float]


def area_and_hits(scores: Any, members: Any) -> Answer:
    alarms, hits, _ = roc_curve(members, scores)
    return {"auc": float(auc(alarms, hits)), "tpr": float(hits[alarms <= RATE][-1])}


def loaded(folder: Path, name: str) -> Any:
    found = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    if found is None or found.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def tf_privacy(held: Any, sources: Path) -> dict[str, Answer]:
    for name in ("", ".privacy", ".privacy.privacy_tests", ".privacy.privacy_tests.utils"):
        stand_in: Any = sys.modules.setdefault(
            f"tensorflow_privacy{name}", types.ModuleType(f"tensorflow_privacy{name}")
        )
        stand_in.log_loss = None  # imported there, and not used by these functions
    attack, bounds = loaded(sources, "advanced_mia"), loaded(sources, "epsilon_lower_bound")
    phi, inside, members = held["phi"], held["inside"], held["inside"][0]
    columns = range(phi.shape[1])
    sides = [
        [phi[1:][inside[1:, k] == side, k][:, None] for k in columns] for side in (True, False)
    ]
    answers = {
        name: -attack.compute_score_lira(phi[0][:, None], *sides, option=option)
        for name, option in (("lira", "both"), ("lira-offline", "out"))
    }
    answers["loss"] = phi[0]
    found = {name: area_and_hits(scores, members) for name, scores in answers.items()}
    lower = bounds.EpsilonLowerBound(answers["lira"][members], answers["lira"][~members], 0.05)
    for method in (bounds.BoundMethod.BAILEY, bounds.BoundMethod.CLOPPER_PEARSON):
        most = lower.compute_epsilon_lower_bound(method, k=1)
        found["lira"][f"epsilon, {method.value}"] = max(float(most[0]) if len(most) else 0.0, 0.0)
    return found


def privacy_guard(held: Any, _: Path) -> dict[str, Answer]:
    import pandas as pd
    from privacy_guard.analysis.mia.aggregate_analysis_input import AggregationType
    from privacy_guard.analysis.mia.analysis_node import AnalysisNode
    from privacy_guard.attacks.lira_attack import LiraAttack

    phi, inside, members = held["phi"], held["inside"], held["inside"][0]
    sides = {
        name: np.where(mask, phi[1:], np.nan)
        for name, mask in (("in", inside[1:]), ("out", ~inside[1:]))
    }
    frame = pd.DataFrame({"user_id": np.arange(len(members)), "score_orig": phi[0]})
    for name, side in sides.items():
        frame[f"score_mean_{name}"] = np.nanmean(side, 0)
        frame[f"score_std_{name}"] = np.nanstd(side, 0, ddof=1)
    attack = LiraAttack(
        frame[members].copy(), frame[~members].copy(), AggregationType.NONE, online_attack=True
    )
    scored = attack.run_attack()
    node = AnalysisNode(
        scored, DELTA, n_users_for_eval=10_000, num_bootstrap_resampling_times=BOOTSTRAPS
    )
    told: Any = node.run_analysis()
    scores = np.concatenate([scored.df_train_user["score"], scored.df_test_user["score"]])
    order = np.arange(len(scores)) < len(scored.df_train_user)
    said = {"epsilon, default": float(told.eps), "epsilon, Clopper-Pearson": float(told.eps_cp)}
    return {"lira": {**area_and_hits(scores, order), **said}}


def ml_privacy_meter(held: Any, sources: Path) -> dict[str, Answer]:
    attacks = loaded(sources, "attacks")
    # Models come in opposite pairs there, of which it leaves the target's own out: one is added.
    order = [0, 0, *range(1, len(held["phi"]))]
    chances, others = (1.0 / (1.0 + np.exp(-held[name][order].T)) for name in ("phi", "population"))
    inside = held["inside"][order].T
    # The reference model of `a` is the partner: the first shadow of a pair is attacked for it.
    quiet = logging.getLogger("quiet")
    quiet.setLevel(logging.ERROR)
    a = attacks.tune_offline_a(2, chances, others, inside, quiet)[0]
    references = (len(order) - 2) // 2
    scores = attacks.run_rmia(0, chances, others, inside, references, a)
    members = held["inside"][0]
    return {
        "rmia": area_and_hits(scores, members),
        "loss": area_and_hits(attacks.run_loss(chances[:, 0]), members),
    }


def art(held: Any, _: Path) -> dict[str, Answer]:
    from art.attacks.inference.membership_inference import (
        MembershipInferenceBlackBox,
        MembershipInferenceBlackBoxRuleBased,
    )
    from art.estimators.classification import BlackBoxClassifier

    logits, labels, members = held["logits"], held["labels"], held["inside"][0]
    model = BlackBoxClassifier(lambda rows: logits[rows[:, 0].astype(int)], (1,), logits.shape[1])
    rows = np.arange(len(labels))[:, None].astype(np.float32)
    ruled = MembershipInferenceBlackBoxRuleBased(model).infer(rows, labels).ravel()
    # Half of members and of others teach the attack, and the rest is asked.
    known = np.random.default_rng(0).random(len(labels)) < 0.5
    taught = MembershipInferenceBlackBox(model, attack_model_type="rf")
    ins, outs = known & members, known & ~members
    taught.fit(rows[ins], labels[ins], rows[outs], labels[outs])
    found = taught.infer(rows[~known], labels[~known], probabilities=True).ravel()
    return {
        "rule": area_and_hits(ruled, members),
        "forest": area_and_hits(found, members[~known]),
    }


PEERS: dict[str, Callable[[Any, Path], dict[str, Answer]]] = {
    "TF-Privacy": tf_privacy,
    "PrivacyGuard": privacy_guard,
    "ml_privacy_meter": ml_privacy_meter,
    "ART": art,
}


def main(sources: str, *paths: str) -> None:
    """Print what each peer says of each file."""
    warnings.simplefilter("ignore")
    np.random.seed(0)  # the peers' bootstraps read the global state
    for path in paths:
        with np.load(path) as archive:
            held = {name: archive[name] for name in archive.files}
        answers: dict[str, Any] = {}
        for name, ask in PEERS.items():
            before = time.process_time()
            try:
                answers[name] = {"says": ask(held, Path(sources))}
            except (ImportError, FileNotFoundError) as missing:
                answers[name] = {"missing": f"{type(missing).__name__}: {missing}"}
            answers[name]["seconds"] = time.process_time() - before
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
