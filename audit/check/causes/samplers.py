"""Samplers that are not Poisson sampling, and draws that are counted twice."""

from __future__ import annotations

from ....accountant.errors import with_article
from ....accountant.guarantee import Bounds
from ...findings import Match, rule
from ..check_case import CheckCase, between


def _another_sampler(case: CheckCase, says: str, without: Bounds | None = None) -> Match:
    """Return that batches were drawn otherwise, and the samplers whose guarantee is better."""
    return Match(
        says,
        epsilon=case.reference,
        severity=case.severity(without),
        next_step=f"Draw each {case.settings.unit} independently in each step (Poisson sampling), "
        "or in one random step of each pass (random allocation: privplan account --sampling "
        "random-allocation --claimed E), and account for that: privplan explain sampling.",
    )


@rule("shuffled-loader")
def shuffled_loader(case: CheckCase) -> Match | None:
    """Batches come from a shuffled loader, which hides less than Poisson sampling."""
    if case.settings.method != "shuffled" or not case.short:
        return None
    poisson = case.otherwise(method="poisson")
    says = "Batches come from a shuffled loader, which hides less than Poisson sampling."
    if case.reference is not None:
        says += f" It proves {between(case.reference)}"
        says += "." if poisson is None else f"; Poisson sampling would prove {between(poisson)}."
    return _another_sampler(case, says, poisson)


@rule("fixed-size-loader")
def fixed_size_loader(case: CheckCase) -> Match | None:
    """Every batch has the same size, which hides less than Poisson sampling."""
    if case.settings.method != "fixed-size" or not case.short:
        return None
    poisson = case.otherwise(method="poisson")
    unit = with_article(case.settings.unit)
    says = f"Batches have a fixed size, so {unit} that leaves one is replaced in it."
    says += case.change_text(None)
    if poisson is not None:
        says += f" Poisson sampling would prove {between(poisson)}."
    return _another_sampler(case, says, poisson)


@rule("with-replacement")
def with_replacement(case: CheckCase) -> Match | None:
    """Batches are drawn with replacement, so that a record may be in one several times."""
    if case.settings.method != "with-replacement" or not case.short:
        return None
    says = (
        f"Batches are drawn with replacement, so {with_article(case.settings.unit)} may be in one "
        f"several times, each time in another's stead.{case.change_text(None)}"
    )
    return _another_sampler(case, says)


@rule(
    "weighted-sampler",
    next_step="State the largest rate of any record as the sampling rate, or draw all at one rate.",
)
def weighted_sampler(case: CheckCase) -> Match | None:
    """Records are drawn by weights, so that no rate holds for all of them."""
    if case.settings.method != "weighted" or not case.short:
        return None
    says = (
        "Records are drawn by weights, so one rate does not hold for all: the heaviest record "
        f"may be in every batch.{case.change_text(None)}"
    )
    return Match(says, epsilon=case.reference)


@rule(
    "sampled-twice",
    next_step="Count the steps of one client in every round, with the rate inside it, or give a "
    "log that bounds how often a client takes part.",
)
def sampled_twice(case: CheckCase) -> Match | None:
    """Clients and records are both sampled, and the number counts both draws in every step."""
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
    severity = case.severity() if product is None else case.severity_of(product)
    return Match(says, epsilon=case.reference, severity=severity)
