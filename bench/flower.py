"""Flower's SecAgg+, as it is, without its transport."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from flwr.client.mod.secure_aggregation.secaggplus_mod import (
    SecAggPlusState,
    _collect_masked_vectors,
    _setup,
    _share_keys,
    _unmask,
)
from flwr.common import bytes_to_ndarray, ndarrays_to_parameters
from flwr.common.secure_aggregation.crypto.shamir import combine_shares
from flwr.common.secure_aggregation.ndarrays_arithmetic import (
    factor_extract,
    get_parameters_shape,
    parameters_addition,
    parameters_mod,
    parameters_subtraction,
)
from flwr.common.secure_aggregation.quantization import dequantize
from flwr.common.secure_aggregation.secaggplus_constants import Key
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

CLIP, TARGET, RING = 8.0, 2**22, 2**32
"""The defaults of Flower's workflow."""

MAX_SUM_ERROR = 1e-4
"""How far the mean may be from the true one, for it to be right: they quantise to 2^-18."""


def masked_sum(parties: int, threshold: int, length: int) -> tuple[float, int, bool]:
    """Return CPU seconds, bytes one client sends, and whether the mean is right.

    A complete graph, nobody drops out.  The clients' functions are Flower's `_setup`,
    `_share_keys`, `_collect_masked_vectors` and `_unmask`; what its server does is in `_unmasked`.
    """
    weights = np.random.default_rng(0).uniform(-1.0, 1.0, length).astype(np.float32)
    clients = {number: SecAggPlusState() for number in range(parties)}
    start = time.process_time()
    mean, sent = _run(clients, threshold, weights)
    spent = time.process_time() - start
    return spent, sent, bool(np.abs(mean - weights).max() < MAX_SUM_ERROR)


def _run(clients: dict[int, Any], threshold: int, weights: Any) -> tuple[Any, int]:
    public = {}
    for number, state in clients.items():
        state.nid = number
        keys = _setup(state, _setting(len(clients), threshold))
        public[str(number)] = (keys[Key.PUBLIC_KEY_1], keys[Key.PUBLIC_KEY_2])
    boxes: dict[int, tuple[list[int], list[bytes]]] = {number: ([], []) for number in clients}
    for number, state in clients.items():
        shared = _share_keys(state, dict(public))
        locked = zip(shared[Key.DESTINATION_LIST], shared[Key.CIPHERTEXT_LIST], strict=True)
        for receiver, ciphertext in locked:
            boxes[receiver][0].append(number)
            boxes[receiver][1].append(ciphertext)
    total: Any = None
    for number, state in clients.items():
        sources, ciphertexts = boxes[number]
        configs = {Key.SOURCE_LIST: sources, Key.CIPHERTEXT_LIST: ciphertexts}
        parameters = ndarrays_to_parameters([weights])
        masked = _collect_masked_vectors(state, configs, 1, parameters)
        vector = [bytes_to_ndarray(raw) for raw in masked[Key.MASKED_PARAMETERS]]
        total = vector if total is None else parameters_addition(total, vector)
    sent = sum(map(len, masked[Key.MASKED_PARAMETERS]))
    return _unmasked(clients, parameters_mod(total, RING)), sent


def _unmasked(clients: dict[int, Any], total: Any) -> Any:
    """Do what the server's workflow does last: recover the seeds, and take the masks off."""
    shares: dict[int, list[bytes]] = {number: [] for number in clients}
    for state in clients.values():
        asked = {Key.ACTIVE_NODE_ID_LIST: list(clients), Key.DEAD_NODE_ID_LIST: []}
        reply = _unmask(state, asked)
        for owner, share in zip(reply[Key.NODE_ID_LIST], reply[Key.SHARE_LIST], strict=True):
            shares[owner].append(share)
    for owner in clients:
        seed = combine_shares(shares[owner])
        mask = pseudo_rand_gen(seed, RING, get_parameters_shape(total))
        total = parameters_subtraction(total, mask)
    factor, quantised = factor_extract(parameters_mod(total, RING))
    (values,) = dequantize(quantised, CLIP, TARGET)
    return (values - (len(clients) - 1) * CLIP) * (TARGET / factor)


def _setting(parties: int, threshold: int) -> dict[str, Any]:
    return {
        Key.SAMPLE_NUMBER: parties,
        Key.SHARE_NUMBER: parties,
        Key.THRESHOLD: threshold,
        Key.CLIPPING_RANGE: CLIP,
        Key.TARGET_RANGE: TARGET,
        Key.MOD_RANGE: RING,
        Key.MAX_WEIGHT: 1.0,
    }
