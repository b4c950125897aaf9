"""The facts of a product in the log: there and back, and logs without them as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.accountant.sensitivity.product import ProductBound

from ..cases import for_each
from .products import bound, noisy_product

FACTS = records.Product(50, 5, 2.0, 0.1, 4, None, 13, 10)


def there_and_back(record: Any) -> Any:
    return type(record).from_json(json.loads(json.dumps(record.to_json(), allow_nan=False)))


@for_each("unit", ["record", "silo", "entry"])
def test_what_a_mechanism_states_goes_there_and_back(unit: str) -> None:
    mechanism = noisy_product(bound(unit, row_norm=0.1, divisor=3.0))
    stated = mechanism.contribution
    again = there_and_back(stated)
    assert again == stated
    facts = again.product
    # The bound is made again of the facts and the unit, and nothing else.
    found = ProductBound(
        unit=again.unit,
        **{name: value for name, value in vars(facts).items() if not name.endswith("_bits")},
    )
    assert found == mechanism.product
    assert there_and_back(mechanism.noise()) == mechanism.noise()


def test_a_contribution_without_a_product_is_written_as_before() -> None:
    """Byte for byte: a log of an older run, and its hashes, stay what they are."""
    plain = records.Contribution(0.5, "l2", "user", "silo-delta", "public")
    text = (
        '{"bound": "0.5", "norm": "l2", "unit": "user", "terms": "silo-delta", "source": "public"}'
    )
    assert json.dumps(plain.to_json()) == text
    assert records.Contribution.from_json(json.loads(text)) == plain
    gram = records.Gram(4, 3, 0.7, 5, 1.0, True, 6.0, 12)
    with_gram = records.Contribution(1.0, "l2", "record", "gram", "public", gram)
    assert "product" not in with_gram.to_json()
    assert "gram" not in noisy_product().contribution.to_json()


def test_unknown_fields_and_terms_are_refused() -> None:
    stated = noisy_product().contribution.to_json()
    facts = dict(FACTS.to_json())
    with pytest.raises(InvalidInput, match="seed"):
        records.Product.from_json({**facts, "seed": 1})
    with pytest.raises(InvalidInput, match="seed"):
        records.Contribution.from_json({**stated, "product": {**facts, "seed": 1}})
    for terms in ("products", "", None):
        with pytest.raises(InvalidInput, match="terms"):
            records.Contribution.from_json({**stated, "terms": terms})
    with pytest.raises(InvalidInput, match="product"):
        records.Contribution.from_json({**stated, "product": [1, 2]})
