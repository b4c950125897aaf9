"""The headlines of the text and the program of DISCO, measured again, each next to privplan's.

    python bench/disco_headlines.py            # prints tables
    python bench/disco_headlines.py --json     # prints what bench/disco_headlines.json holds

Float shares are those of `fl.crypto.additive.no_guarantee_float_shares` with fixed seeds; the ring
is that of `fl.crypto.additive.share` and `fl.secagg.decentralised`.  It takes about half a minute.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from rich.console import Console
from verdicts import grid, progress

from privplan.accountant import rounding
from privplan.accountant.claims.table import noise, table
from privplan.audit.demos import DEMOS, run_demo
from privplan.audit.demos.counting import delta_lower
from privplan.audit.demos.disco_share_search import search_differences, search_last_shares
from privplan.fl.crypto import additive
from privplan.fl.crypto.fixed_point_sums import FixedPoint
from privplan.fl.crypto.keys import Identity
from privplan.fl.parties.network import Network
from privplan.fl.secagg.decentralised import Group, decentralised_sum

GROUPS = (3, 10)
MAGNITUDES = (1.0, 100.0, 10_000.0)
PUBLISHED_ERROR_PER_MAGNITUDE = 10e-8
"""As the text has it: "maxShareValue x 10e-8", 10e-6 at 100."""

NUMBERS = 200_000
WEIGHT_SPREAD = 0.05
"""The standard deviation of the weights that are shared."""

RING_STEP = 2.0**-27
SEARCH_SIZES = (4096, 1024)
SEARCH_DISTANCE = 100.0
SEARCH_RUNS = 300
SEARCH_ALPHA = 1e-3
"""How often the bound of an advantage is wrong: shares in the ring are other ones in every run."""
TOTAL_ROUNDS = 50
TOTAL_NUMBERS = 1000


def weights(size: int, rng: np.random.Generator) -> np.ndarray:
    """Return random weights, float32."""
    return rng.normal(0.0, WEIGHT_SPREAD, size).astype(np.float32)


def float_shares(tensor: np.ndarray, parties: int, magnitude: float, rng: Any) -> list[np.ndarray]:
    """Return the float shares of one tensor, the last one last."""
    seeds = [int(seed) for seed in rng.integers(2**additive.DISCO_SEED_BITS, size=parties - 1)]
    rows = additive.no_guarantee_float_shares([tensor], parties, seeds=seeds, magnitude=magnitude)
    return [row[0] for row in rows]


def added(parts: list[np.ndarray]) -> np.ndarray:
    """Return the sum in float32, from the first to the last."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def reconstruction(parties: int, magnitude: float) -> dict[str, Any]:
    """Share a tensor and add the shares up: the error of floats, and of words in the ring."""
    rng = np.random.default_rng([1, parties, int(magnitude)])
    secret = weights(NUMBERS, rng)
    error = added(float_shares(secret, parties, magnitude, rng)).astype(np.float64) - secret
    total, exact = total_of_all(parties, magnitude, rng)
    words = np.rint(secret / RING_STEP).astype(np.int64).view(np.uint64)
    seeds, last = additive.share(words, parties)
    additive.add_expanded(last, seeds, sign=1)
    return {
        "parties": parties,
        "magnitude": magnitude,
        "published": magnitude * PUBLISHED_ERROR_PER_MAGNITUDE,
        "rms": float(np.sqrt(np.mean(error**2))),
        "largest": float(np.abs(error).max()),
        "rms_of_total": float(np.sqrt(np.mean((total - exact) ** 2))),
        "largest_of_total": float(np.abs(total - exact).max()),
        "ring": int(np.abs((last - words).view(np.int64)).max()),
    }


def total_of_all(
    parties: int, magnitude: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the total of all partial sums of all parties' shares, and the sum of their secrets."""
    secrets = [weights(NUMBERS, rng) for _ in range(parties)]
    sent = [float_shares(secret, parties, magnitude, rng) for secret in secrets]
    total = added([added([row[to] for row in sent]) for to in range(parties)])
    return total.astype(np.float64), np.sum(secrets, axis=0, dtype=np.float64)


def searches() -> list[dict[str, Any]]:
    """Run both searches on float shares and on shares in the ring."""
    result = []
    for kind in ("floats", "ring"):
        rng = np.random.default_rng(2)
        secrets = [[weights(size, rng) for size in SEARCH_SIZES] for _ in range(5)]
        differences = search_differences(kind, secrets, rng)  # type: ignore[arg-type]
        counts = search_last_shares(kind, 512, SEARCH_DISTANCE, SEARCH_RUNS, rng)  # type: ignore[arg-type]
        result.append(
            {
                "shares": kind,
                "differences_equal": differences.equal,
                "differences": differences.numbers,
                "largest_error": differences.largest_error,
                "runs": SEARCH_RUNS,
                "hits": SEARCH_RUNS - counts.misses,
                "false_alarms": counts.false_alarms,
                "advantage": delta_lower(counts, epsilon=0.0, alpha=SEARCH_ALPHA),
                "alpha": SEARCH_ALPHA,
            }
        )
    return result


def observers() -> list[dict[str, Any]]:
    """Return, by observer: what is claimed, what is proven, and what the demonstration measured."""
    shown = run_demo("disco-radius", 0)
    by_row = dict(zip(DEMOS["disco-radius"].rows, shown.measurements, strict=False))
    rows = {claim.setting: claim for claim in table("disco")}
    result = []
    for setting, measured in by_row.items():
        claim = rows[setting]
        result.append(
            {
                "observer": claim.observer,
                "setting": setting,
                "claimed": claim.claimed,
                "proven": claim.proven,
                "lower": claim.lower,
                "verdict": claim.verdict,
                "measured": measured.value,
                "confidence": measured.confidence,
            }
        )
    # The coordinator connects the peers and can have the model: it learns what the model says.
    by_model = next(each for each in result if each["observer"] == "model")
    return [*result, {**by_model, "observer": "coordinator, who has the model"}]


def float_totals(parties: int, magnitude: float) -> dict[str, Any]:
    """Let every peer add all partial sums up in the order in which they arrive.

    That order is random and differs from peer to peer, which is what a network gives; the partial
    sums that they add are the same bits for all.
    """
    rng = np.random.default_rng([3, parties, int(magnitude)])
    rounds = numbers = 0
    largest = 0.0
    for _ in range(TOTAL_ROUNDS):
        sent = [
            float_shares(weights(TOTAL_NUMBERS, rng), parties, magnitude, rng)
            for _ in range(parties)
        ]
        partial = [added([row[to] for row in sent]) for to in range(parties)]
        totals = np.stack(
            [added([partial[one] for one in rng.permutation(parties)]) for _ in range(parties)]
        )
        spread = totals.max(axis=0).astype(np.float64) - totals.min(axis=0)
        rounds += bool((spread > 0.0).any())
        numbers += int((spread > 0.0).sum())
        largest = max(largest, float(spread.max()))
    return {
        "parties": parties,
        "magnitude": magnitude,
        "rounds": TOTAL_ROUNDS,
        "rounds_that_differ": rounds,
        "numbers": TOTAL_ROUNDS * TOTAL_NUMBERS,
        "numbers_that_differ": numbers,
        "largest_difference": largest,
    }


def ring_totals(parties: int) -> dict[str, Any]:
    """Run the protocol of the ring as often, and compare the totals that the peers end with."""
    names = [f"peer-{index}" for index in range(parties)]
    identities = {name: Identity.new() for name in names}
    grid_points = FixedPoint(step=RING_STEP, bound=4.0, terms=parties, modulus=2**64)
    roster = {name: identity.public for name, identity in identities.items()}
    group = Group(roster, parties, grid_points, TOTAL_NUMBERS)
    network = Network(names)
    posts = {name: network.post(name) for name in names}
    rng = np.random.default_rng([4, parties])
    rounds = 0
    wrong = 0
    for number in range(TOTAL_ROUNDS):
        inputs = {name: grid_points.encode(weights(TOTAL_NUMBERS, rng)) for name in names}
        totals = decentralised_sum(posts, group, identities, b"bench", number, inputs)
        rounds += len({total.tobytes() for total in totals.values()}) > 1
        wrong += any(not np.array_equal(total, sum(inputs.values())) for total in totals.values())
    return {
        "parties": parties,
        "rounds": TOTAL_ROUNDS,
        "rounds_that_differ": rounds,
        "rounds_with_a_wrong_total": wrong,
    }


def headlines() -> dict[str, Any]:
    """Return every number of this file."""
    progress("the error of shares")
    errors = [reconstruction(n, m) for n in GROUPS for m in MAGNITUDES]
    progress("what searches find in shares")
    found = searches()
    progress("what each observer learns")
    seen = observers()
    progress("totals of peers")
    return {
        "numbers": NUMBERS,
        "reconstruction": errors,
        "searches": found,
        "observers": seen,
        "float_totals": [float_totals(n, m) for n in GROUPS for m in MAGNITUDES],
        "ring_totals": [ring_totals(n) for n in GROUPS],
        "noise": [
            {
                "setting": line.setting,
                "way": line.way,
                "deviation": line.deviation,
                "in": line.symbol,
                "proven": line.proven,
                "published": line.published,
            }
            for line in noise("disco")
        ],
    }


def finite(value: Any) -> Any:
    """Return the same with infinite numbers as "inf", since JSON has none."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [finite(each) for each in value]
    return "inf" if value == float("inf") else value


def show(console: Console, found: dict[str, Any]) -> None:
    """Print the tables."""
    errors = grid(
        "Error of shares added up",
        "peers",
        "M",
        "text",
        "rms / M",
        "largest / M",
        "total: rms / M",
        "in the ring",
    )
    for each in found["reconstruction"]:
        m = each["magnitude"]
        errors.add_row(
            *(str(each["parties"]), f"{m:g}", f"{each['published']:.0e}"),
            *(f"{each['rms'] / m:.1e}", f"{each['largest'] / m:.1e}"),
            *(f"{each['rms_of_total'] / m:.1e}", str(each["ring"])),
        )
    search = grid(
        "Searches", "<shares", "unmasked differences", "told apart", "advantage, at least"
    )
    for each in found["searches"]:
        search.add_row(
            each["shares"],
            f"{each['differences_equal']:,} of {each['differences']:,}",
            f"{each['hits']} and {each['false_alarms']} of {each['runs']}",
            rounding.down(each["advantage"], 2),
        )
    seen = grid("Epsilon by observer", "<observer", "<setting", "claimed", "proven", "measured")
    for each in found["observers"]:
        proven = "no guarantee" if each["verdict"] == "no-guarantee" else f"{each['proven']:.4g}"
        measured = f">= {rounding.down(each['measured'])}"
        claimed = f"{each['claimed']:g}"
        seen.add_row(each["observer"], each["setting"], claimed, proven, measured)
    totals = grid("Totals of peers", "<shares", "peers", "M", "rounds that differ", "numbers", "by")
    for each in found["float_totals"]:
        totals.add_row(
            *("floats", str(each["parties"]), f"{each['magnitude']:g}"),
            f"{each['rounds_that_differ']} of {each['rounds']}",
            f"{each['numbers_that_differ'] / each['numbers']:.1%}",
            f"{each['largest_difference']:.2g}",
        )
    for each in found["ring_totals"]:
        rounds = f"{each['rounds_that_differ']} of {each['rounds']}"
        totals.add_row("ring", str(each["parties"]), "", rounds, "0", "0")
    widths = grid("Noise on each number", "<setting", "<way", "deviation", "proves")
    for each in found["noise"]:
        width = each["deviation"]
        number = f"{width:.4g}" if each["published"] else rounding.up(width)
        deviation = f"{number} {each['in']}"
        widths.add_row(each["setting"], each["way"], deviation, rounding.up(each["proven"]))
    console.print(errors, search, seen, totals, widths, sep="\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    as_json = parser.parse_args().json
    found = headlines()
    if as_json:
        print(json.dumps(finite(found), indent=1))
        return
    console = Console()
    show(console if console.is_terminal else Console(width=130), found)


if __name__ == "__main__":
    main()
