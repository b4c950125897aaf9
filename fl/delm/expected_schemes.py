"""What a configuration of DELM's published schemes fixes of its log (`fl.frame.expected_log`)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from ...accountant import events as ev
from ...accountant.arrays import FloatArray
from ...accountant.records import Normaliser, RoundIntent, Sampling
from ..declarations.declaration import Read
from ..frame.expected_log import ExpectedLog, ExpectedPhase, NotStated, expected_phase
from ..frame.initial_model import initial_vector, layers_in
from ..tables.record_shape import shape_read
from .coefficients import coefficient_terms
from .noise_width import multiplier_of, printed_mechanism
from .parts import Parts
from .pca_terms import PCA, PcaTerms, components_of, expected_pca, pca_epsilon
from .pieces import Scheme, parts_of, selected_of
from .printed import printed_event
from .settings import LINEAR_MODELS, NO_PCA, TABLE, WISHART, DelmSettings, noise_is_given
from .votes import votes_mechanism


def _phase(chooses: bool, read: Read, intent: RoundIntent, values: int | None) -> ExpectedPhase:
    del values
    scheme = Scheme(_table(read), chooses, read("run", "rounds"))
    if intent.phase == PCA:
        return _pca(scheme, read, intent)
    clients: int = read("data", "silos")
    averaged = selected_of(scheme.table.selected, clients) if chooses else clients
    divided = Normaliser("constant", float(averaged))
    if read("training", "model") in LINEAR_MODELS:
        return _coefficients(scheme, read, intent, divided)
    return _printed(scheme, read, divided)


def _pca(scheme: Scheme, read: Read, intent: RoundIntent) -> ExpectedPhase:
    features, _ = _shape(read)
    table = scheme.table
    assert table.pca != NO_PCA
    epsilon = pca_epsilon(scheme, read("privacy", "epsilon"), _model(read), _layers(read))
    terms = PcaTerms(
        kind=table.pca,
        noise=epsilon if table.pca == WISHART else 1.0,  # Gaussian noise was found
        row_norm=table.row_norm,
        components=components_of(table, features),
        features=features,
        silos=read("data", "silos"),
        users=read("data", "users"),
        relation=read("privacy", "neighbours"),
        most_rows=table.most_rows,
    )
    return expected_pca(terms, intent)


def _coefficients(
    scheme: Scheme, read: Read, intent: RoundIntent, divided: Normaliser
) -> ExpectedPhase:
    table = scheme.table
    features, classes = _trained(read)
    terms = coefficient_terms(
        table,
        relation=read("privacy", "neighbours"),
        features=features,
        classes=classes,
        users=read("data", "users"),
        silos=read("data", "silos"),
    )
    parts = _parts(scheme, read)
    if not noise_is_given(_model(read), table.pca, table.sensitivity, table.training_epsilon):
        if not isinstance(intent.event, ev.Laplace):
            raise NotStated("the noise that was found")
        noise = intent.event.noise_multiplier
    else:
        noise = multiplier_of(terms, _model(read), table.sensitivity, parts.training)
    mechanism = terms.mechanism(noise)
    return ExpectedPhase(
        mechanism.contribution,
        mechanism.noise(),
        mechanism.sensitivity(read("privacy", "neighbours")),
        mechanism.weights_used,
        Sampling(),
        divided,
    )


def _printed(scheme: Scheme, read: Read, divided: Normaliser) -> ExpectedPhase:
    features, classes = _trained(read)
    first = initial_vector(_model(read), features, classes, 0)
    if first is None:
        raise NotStated(f"the parameters of {_model(read)}")
    parts = _parts(scheme, read)
    mechanism = printed_mechanism(
        _model(read),
        features=features,
        classes=classes,
        parameters=first.size,
        epsilon=parts.training,
    )
    return ExpectedPhase(
        mechanism.contribution,
        mechanism.noise(),
        mechanism.sensitivity(read("privacy", "neighbours")),
        mechanism.weights_used,
        Sampling(),
        divided,
        clip_enforced=False,
        event=printed_event(_model(read)),
    )


def _votes(read: Read) -> ExpectedPhase:
    """Return what the release of votes states: it is the same of every piece and model."""
    mechanism = votes_mechanism(read("evaluation", "held_out_noise"), silos=read("data", "silos"))
    return expected_phase(mechanism, read("privacy", "neighbours"), 1, Sampling(), None)


def _first(read: Read) -> FloatArray:
    features, classes = _trained(read)
    first = initial_vector(_model(read), features, classes, read("training", "seed"))
    if first is None:
        raise NotStated(f"the first model of {_model(read)}")
    return first


def _parts(scheme: Scheme, read: Read) -> Parts:
    return parts_of(scheme, read("privacy", "epsilon"), _layers(read))[0]


def _layers(read: Read) -> int:
    layers = layers_in(_model(read), *_trained(read))
    if layers is None:
        raise NotStated(f"the layers of {_model(read)}")
    return layers


def _trained(read: Read) -> tuple[int, int]:
    """Return how many features the model has, after the PCA where there is one, and classes."""
    features, classes = _shape(read)
    table = _table(read)
    return (features if table.pca == NO_PCA else components_of(table, features)), classes


def _shape(read: Read) -> tuple[int, int]:
    shape = shape_read(read)
    if shape is None:
        raise NotStated("[data] name")
    return shape[0], shape[1]


def _model(read: Read) -> str:
    return str(read("training", "model"))


def _table(read: Read) -> DelmSettings:
    return DelmSettings(**{key.name: read(TABLE.name, key.name) for key in TABLE.keys})


def _before(read: Read) -> int:
    """Return how many releases come before the rounds: the PCA, where there is one."""
    return int(read(TABLE.name, "pca") != NO_PCA)


BASIC: Final = ExpectedLog(partial(_phase, False), first=_first, before=_before, votes=_votes)
ENHANCED: Final = replace(BASIC, phase=partial(_phase, True))
"""The basic scheme, and the enhanced one."""
