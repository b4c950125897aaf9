"""Samplers that are not Poisson sampling, and draws that are counted twice."""

from __future__ import annotations

from ....accountant.errors import with_article
from ....accountant.guarantee import Bounds
from ..check_case import CheckCase, between
from .cause_rule import CauseFinding, cause_rule


def two_ways_out(case: CheckCase) -> str:
    """Return the samplers whose guarantee is better, as a next step."""
    return (
        f"Draw each {case.settings.unit} independently in each step (Poisson sampling), or in one "
        "random step of each pass (random allocation: privplan account --sampling "
        "random-allocation --claimed E), and account for that: privplan explain sampling."
    )


def _as_poisson(case: CheckCase) -> Bounds | None:
    return case.otherwise(method="poisson")


@cause_rule(
    "shuffled-loader",
    "Batches come from a shuffled loader, which hides less than Poisson sampling.",
)
def shuffled_loader(case: CheckCase) -> CauseFinding | None:
    """Fire where batches come from a shuffled loader and the claim does not cover that."""
    if case.settings.method != "shuffled" or not case.short:
        return None
    poisson = _as_poisson(case)
    says = "Batches come from a shuffled loader, which hides less than Poisson sampling."
    if case.reference is not None:
        says += f" It proves {between(case.reference)}"
        says += "." if poisson is None else f"; Poisson sampling would prove {between(poisson)}."
    return CauseFinding(case.severity(poisson), says, two_ways_out(case), case.reference)


@cause_rule(
    "fixed-size-loader",
    "Every batch has the same size, which hides less than Poisson sampling.",
)
def fixed_size_loader(case: CheckCase) -> CauseFinding | None:
    """Fire where every batch has the same size and the claim does not cover that."""
    if case.settings.method != "fixed-size" or not case.short:
        return None
    poisson = _as_poisson(case)
    unit = with_article(case.settings.unit)
    says = f"Batches have a fixed size, so {unit} that leaves one is replaced in it."
    says += case.change_text(None)
    if poisson is not None:
        says += f" Poisson sampling would prove {between(poisson)}."
    return CauseFinding(case.severity(poisson), says, two_ways_out(case), case.reference)


@cause_rule(
    "with-replacement",
    "Batches are drawn with replacement, so that a record may be in one several times.",
)
def with_replacement(case: CheckCase) -> CauseFinding | None:
    """Fire where batches are drawn with replacement and the claim does not cover that."""
    if case.settings.method != "with-replacement" or not case.short:
        return None
    says = (
        f"Batches are drawn with replacement, so {with_article(case.settings.unit)} may be in one "
        f"several times, each time in another's stead.{case.change_text(None)}"
    )
    return CauseFinding(case.severity(), says, two_ways_out(case), case.reference)


@cause_rule(
    "weighted-sampler",
    "Records are drawn by weights, so that no rate holds for all of them.",
)
def weighted_sampler(case: CheckCase) -> CauseFinding | None:
    """Fire where records are drawn by weights and the claim rests on a common rate."""
    if case.settings.method != "weighted" or not case.short:
        return None
    says = (
        "Records are drawn by weights, so one rate does not hold for all: the heaviest record "
        f"may be in every batch.{case.change_text(None)}"
    )
    step = "State the largest rate of any record as the sampling rate, or draw all at one rate."
    return CauseFinding("error", says, step, case.reference)


@cause_rule(
    "sampled-twice",
    "Clients and records are both sampled, and the number counts both draws in every step.",
)
def sampled_twice(case: CheckCase) -> CauseFinding | None:
    """Fire where clients and records are both sampled, and the claim counts both draws."""
    settings = case.settings
    product = case.near("clients-times-records")
    both = settings.clients_rate is not None and settings.rate is not None
    if product is None and not (
        both and settings.unit == "record" and (settings.clients_rate or 1.0) < 1.0 and case.short
    ):
        return None
    says = (
        "Clients are sampled around the sampling of records: a client that is drawn again and "
        "again hides its records by its own sampling only, over all rounds."
        f"{case.change_text(None)}"
    )
    if product is not None:
        says += f" {product.says}"
    step = (
        "Count the steps of one client in every round, with the rate inside it, or give a log "
        "that bounds how often a client takes part."
    )
    severity = case.severity() if product is None else case.severity_of(product)
    return CauseFinding(severity, says, step, case.reference)
