"""What DELM's figures vary, as runs: name, system or baseline, scenario, rounds, what is chosen.

Parts of epsilon are the paper's for a claim at ratio r, of the two layers that the network has (the
paper counts three).  What has no noise at all is told by an epsilon of 1e9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from delm_baseline_runs import Baseline
from delm_baselines import Knobs, Noise
from delm_scenarios import Scenario
from delm_systems import Case, Delm, Linear

from privplan.fl.delm.noise_width import printed_scale
from privplan.fl.delm.parts import Parts, parts_by_ratio

LAYERS: Final = 2
"""Layers of `mlp-64`."""

EPSILONS: Final = (0.1, 0.25, 0.5, 1.0)
KEPT: Final = (0.5, 0.8)
RATIOS: Final = (2.0, 5.0, 10.0)

ROUNDS: Final = 30
"""Rounds of what learns; the paper makes 250."""

ROUNDS_OF_NOISE: Final = 5
"""Rounds of what is nothing but noise, where more rounds are more of it."""

_ROUNDS_OF_IMAGES: Final = 2

_HUGE: Final = 1e9

BAD: Final = {"bad_silos": 0.4, "bad_labels": 0.8}
"""Shares of clients and of their records; the paper's could not be recovered."""

_STEPS: Final = tuple(Knobs(rate) for rate in (1.0, 2.0))
_PROXIMAL: Final = tuple(Knobs(2.0, proximal=mu) for mu in (0.01, 0.1, 1.0))
_CLIPS: Final = tuple(Knobs(rate, clip=clip) for clip in (0.003, 0.01, 0.03) for rate in (1.0, 3.0))
_SCORED: Final = tuple(Knobs(rate) for rate in (1e-6, 1e-4))


def _of_sums(scenario: Scenario, *rates: float) -> tuple[Knobs, ...]:
    """Return steps along sums over a client's records, of which digits have 14."""
    return tuple(Knobs(rate * 14.0 / scenario.records) for rate in rates)


def _noisy(scenario: Scenario) -> tuple[Knobs, ...]:
    return _of_sums(scenario, 1e-6, 1e-4, 0.02)


def _gradients(scenario: Scenario) -> tuple[Knobs, ...]:
    return _of_sums(scenario, 0.02, 0.05)


def _coefficients(scenario: Scenario) -> tuple[Knobs, ...]:
    return _of_sums(scenario, 1e-4, 1e-2, 0.1, 0.5)


@dataclass(frozen=True)
class Named:
    """One row: the figure that it belongs to, what it is, and what is tried for it."""

    figure: str
    name: str
    case: Case
    scenario: Scenario
    rounds: int
    tried: tuple[Knobs, ...]
    claimed: float | None = None
    ratio: float | None = None


def parts_at(epsilon: float, ratio: float = 2.0) -> Parts:
    """Return the parts of a claim: of PCA, of one round, and of the selection."""
    return parts_by_ratio(epsilon, ratio, LAYERS, has_pca=True, has_choice=True)


def reductions(scenario: Scenario) -> Iterator[Named]:
    """Yield what Figure 2 compares: fewer features in several ways, and training without noise.

    What is claimed is for all of a run, of which the PCA has its part; the training has none.
    """

    def row(name: str, case: Baseline, claimed: float | None = None) -> Named:
        return Named("2", name, case, scenario, ROUNDS, _STEPS, claimed)

    yield row("all features", Baseline("fedavg"))
    for kept in KEPT:
        yield row(f"joint components, p {kept:g}", Baseline("fedavg", "joint", kept))
        for epsilon in (0.1, 1.0):
            part = parts_at(epsilon).pca
            for name, reduction in (("Wishart noise", "wishart"), ("LDP-PCA", "ldp")):
                case = Baseline("fedavg", reduction, kept, epsilon_pca=part)  # type: ignore[arg-type]
                yield row(f"{name}, p {kept:g}, epsilon {epsilon:g}", case, epsilon)
        yield row(f"local PCA, p {kept:g}", Baseline("fedavg", "local", kept))


def by_epsilon(scenario: Scenario) -> Iterator[Named]:
    """Yield Figures 3a and 3b: the basic scheme and LDP-FL by epsilon, for two shares p."""
    for figure, kept in zip(("3a", "3b"), KEPT, strict=True):
        for epsilon in EPSILONS:
            yield published(figure, f"basic, p {kept:g}", scenario, epsilon, kept)
    for epsilon in EPSILONS:
        yield ldp_fl("3a", "LDP-FL", scenario, epsilon)
    yield Named("3a", "FedAvg", Baseline("fedavg"), scenario, ROUNDS, _STEPS)
    noiseless = (("pca", "none"), ("training_epsilon", LAYERS * _HUGE))
    case = Delm("delm-basic", _HUGE, 1.0, noiseless)
    yield Named("3a", "basic without noise", case, scenario, ROUNDS, _gradients(scenario))


def by_ratio(scenario: Scenario) -> Iterator[Named]:
    """Yield Figures 3c and 3d: the basic scheme by epsilon1 : epsilon2, for two shares p."""
    for figure, kept in zip(("3c", "3d"), KEPT, strict=True):
        for ratio in RATIOS:
            for epsilon in (0.1, 1.0):
                pieces = (("ratio", ratio),)
                name = f"basic, p {kept:g}, 1:{ratio:g}"
                yield published(figure, name, scenario, epsilon, kept, pieces, ratio=ratio)


def unequal(figure: str, scenario: Scenario) -> Iterator[Named]:
    """Yield a scenario with silos that differ, or with bad labels: all that are compared there."""
    for selection in ("divergence", "top-k"):
        pieces = (("selection", selection),)
        yield published(
            figure, f"enhanced, {selection}", scenario, 1.0, 0.5, pieces, "delm-enhanced"
        )
    yield published(figure, "basic", scenario, 1.0, 0.5)
    yield ldp_fl(figure, "LDP-FL", scenario, 1.0)
    yield Named(figure, "FedAvg", Baseline("fedavg"), scenario, ROUNDS, _STEPS)
    yield Named(figure, "FedProx", Baseline("fedprox"), scenario, ROUNDS, _PROXIMAL)
    yield Named(figure, "STC", Baseline("stc"), scenario, ROUNDS, _STEPS)
    parts = parts_at(1.0)
    width = scenario.features
    scale = printed_scale(scenario.model, width, scenario.classes, parts.training)
    for name, noise, tried, rounds in (
        ("SecProbe", Noise(parts.training, parts.selection, scale), _SCORED, ROUNDS_OF_NOISE),
        ("SecProbe without noise", Noise(0.0, parts.selection), _steps_of_gradients(), ROUNDS),
    ):
        case = Baseline("secprobe", noise=noise)
        yield Named(figure, name, case, scenario, rounds, tried, 1.0 if noise.training else None)


def choices(figure: str, scenario: Scenario) -> Iterator[Named]:
    """Yield the enhanced scheme without noise, by how clients are chosen; the paper's epsilon3."""
    yield from (
        Named(figure, f"{name} without noise", case, scenario, ROUNDS, _gradients(scenario))
        for name, case in _choices()
    )


def _choices() -> Iterator[tuple[str, Delm]]:
    common: tuple[tuple[str, Any], ...] = (("pca", "none"), ("training_epsilon", LAYERS * _HUGE))
    yield "basic", Delm("delm-basic", _HUGE, 1.0, common)
    for name, more in (
        ("divergence", (("selection_epsilon", 3.0),)),
        ("uniform", ()),
        ("top-k", ()),
    ):
        pieces = (*common, ("selection", name), *more)
        yield f"enhanced, {name}", Delm("delm-enhanced", _HUGE, 1.0, pieces)


def ladder(scenario: Scenario, epsilons: tuple[float, ...] = (1.0,)) -> Iterator[Named]:
    """Yield the pieces, one exchanged after the other, on a network and on a linear model."""
    softmax = replace(scenario, model="softmax")
    none: tuple[tuple[str, Any], ...] = (("pca", "none"),)
    for epsilon in epsilons:
        yield published("pieces", "network, as published", scenario, epsilon, 0.5)
        yield published("pieces", "network, no PCA", scenario, epsilon, 1.0, none)
        for name, pieces in (
            ("linear, Wishart PCA, printed, fresh", ()),
            ("linear, Gaussian PCA, printed, fresh", (("pca", "gaussian"),)),
            ("linear, no PCA, printed, fresh", none),
            ("linear, no PCA, printed, once", (*none, ("objective", "once"))),
            ("linear, no PCA, proven, fresh", (*none, ("sensitivity", "proven"))),
            (
                "linear, no PCA, proven, once",
                (*none, ("sensitivity", "proven"), ("objective", "once")),
            ),
            (
                "linear, Gaussian PCA, proven, once",
                (("pca", "gaussian"), ("sensitivity", "proven"), ("objective", "once")),
            ),
        ):
            once = ("objective", "once") in pieces
            case = Delm("delm-basic", epsilon, 0.5, pieces)
            rounds = ROUNDS if once else ROUNDS_OF_NOISE
            yield Named("pieces", name, case, softmax, rounds, _coefficients(scenario), epsilon)
        for name, noise in (("Laplace", "laplace"), ("Gaussian", "gaussian")):
            once = Linear(epsilon, noise)
            tried = (Knobs(1.0),)
            yield Named("pieces", f"delm-linear, {name}", once, softmax, 1, tried, epsilon)


def convolutions(scenario: Scenario) -> Iterator[Named]:
    """Yield the basic scheme on AlexNet's shape, which takes whole images: without PCA."""
    of_images = replace(scenario, model="alexnet")
    case = Delm("delm-basic", 1.0, 1.0, (("pca", "none"),))
    tried = _noisy(scenario)[-1:]
    yield Named("AlexNet", "basic, no PCA", case, of_images, _ROUNDS_OF_IMAGES, tried, 1.0)


def published(
    figure: str,
    name: str,
    scenario: Scenario,
    epsilon: float,
    kept: float,
    pieces: tuple[tuple[str, Any], ...] = (),
    system: Any = "delm-basic",
    ratio: float | None = None,
) -> Named:
    """Return a row of a scheme with its printed noise, which takes few rounds."""
    case = Delm(system, epsilon, kept, pieces)
    return Named(figure, name, case, scenario, ROUNDS_OF_NOISE, _noisy(scenario), epsilon, ratio)


def ldp_fl(figure: str, name: str, scenario: Scenario, epsilon: float) -> Named:
    """Return a row of LDP-FL with as much epsilon in a round as DELM has at this claim."""
    case = Baseline("ldp-fl", noise=Noise(parts_at(epsilon).training))
    return Named(figure, name, case, scenario, ROUNDS, _CLIPS, epsilon)


def _steps_of_gradients() -> tuple[Knobs, ...]:
    return tuple(Knobs(rate) for rate in (0.1, 0.3))
