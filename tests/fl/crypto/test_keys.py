"""Keys, signatures and locked messages: known answers, and everything that is refused."""

from __future__ import annotations

import copy
import pickle
import traceback

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from privplan.accountant.errors import InvalidInput, ProtocolFault
from privplan.accountant.randomness import Secret
from privplan.fl.crypto.keys import (
    LOCK_BYTES,
    SIGNATURE_BYTES,
    Identity,
    KeyPair,
    agree,
    check_public,
    derive,
    fresh,
    lock,
    unlock,
    verify,
)

FIELD = 2**255 - 19

# The u-coordinates of all points whose order divides 8, on the curve and on its twist.
LOW_ORDER = (
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    FIELD - 1,
)


def encoded(number: int) -> bytes:
    return number.to_bytes(32, "little")


def test_the_exchange_is_rfc_7748s() -> None:
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    result = bytes.fromhex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552")
    assert KeyPair.restore(scalar).exchange(point) == result


def test_both_sides_agree_on_the_key_that_is_documented() -> None:
    one, two = KeyPair.new(), KeyPair.new()
    key = agree(one, two.public, b"context")
    assert key == agree(two, one.public, b"context")
    info = b"privplan agree" + (7).to_bytes(8, "little") + b"context"
    info += b"".join(sorted((one.public, two.public)))
    raw = one.exchange(two.public)
    assert key == HKDF(hashes.SHA256(), 32, salt=None, info=info).derive(raw)


def test_a_key_belongs_to_its_pair_and_its_context() -> None:
    one, two, three = KeyPair.new(), KeyPair.new(), KeyPair.new()
    found = {agree(one, two.public, context) for context in (b"a", b"b", b"")}
    found |= {agree(pair, three.public, b"a") for pair in (one, two)}
    assert len(found) == 5


def test_points_of_low_order_malformed_ones_and_ones_own_are_refused() -> None:
    own = KeyPair.new()
    malformed = [b"", bytes(31), bytes(33), b"\xff" * 32]
    malformed += map(encoded, (FIELD, FIELD + 9, 2**255 + 9))
    for public in malformed:
        with pytest.raises(ProtocolFault):
            check_public(public)
    for public in (*malformed, *map(encoded, LOW_ORDER), own.public):
        with pytest.raises(ProtocolFault):
            agree(own, public, b"")
    # The base point is let through.
    assert check_public(encoded(9)) == encoded(9)
    assert len(agree(own, encoded(9), b"")) == 32


def test_a_pair_is_restored_from_its_secret() -> None:
    pair, other = KeyPair.new(), KeyPair.new()
    again = KeyPair.restore(pair.secret)
    assert again.public == pair.public
    assert agree(again, other.public, b"c") == agree(other, pair.public, b"c")
    with pytest.raises(ProtocolFault):
        KeyPair.restore(bytes(31))


def test_what_is_derived_depends_on_secret_label_and_length() -> None:
    secret = bytes(range(32))
    expected = HKDF(hashes.SHA256(), 20, salt=None, info=b"privplan derivelabel").derive(secret)
    assert derive(secret, b"label", 20) == expected
    assert derive(secret, b"label", 20) != derive(secret, b"lab", 20)
    assert derive(secret, b"label", 20) != derive(secret[::-1], b"label", 20)
    assert isinstance(derive(secret, b"label"), Secret)


def test_short_secrets_great_lengths_and_fresh_bytes() -> None:
    for secret, length in ((bytes(15), 32), (bytes(16), 8161)):
        with pytest.raises(InvalidInput):
            derive(secret, b"label", length)
    assert len(derive(bytes(16), b"label", 8160)) == 8160
    assert len({bytes(fresh(16)) for _ in range(100)}) == 100
    assert len(fresh()) == 32


def test_ed25519_is_rfc_8032s() -> None:
    secret = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    identity = Identity.restore(secret)
    assert identity.public == public
    signature = identity.sign(b"")
    assert len(signature) == SIGNATURE_BYTES
    assert signature.hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065")
    verify(public, signature, b"")


def test_wrong_signatures_are_refused() -> None:
    identity, content = Identity.new(), b"content"
    good, public = identity.sign(content), identity.public
    verify(public, good, content)
    for bad in (
        (public, good, b"Content"),
        (public, good[:-1] + bytes([good[-1] ^ 1]), content),
        (public, good[:-1], content),
        (Identity.new().public, good, content),
        (public[:-1], good, content),
    ):
        with pytest.raises(ProtocolFault):
            verify(*bad)


def test_a_lock_opens_with_the_same_key_and_place_only() -> None:
    key = fresh()
    locked = lock(key, b"words", b"place")
    assert len(locked) == 5 + LOCK_BYTES
    assert unlock(key, locked, b"place") == b"words"
    assert b"words" not in locked
    assert locked != lock(key, b"words", b"place")
    flipped = [
        locked[:at] + bytes([locked[at] ^ 1]) + locked[at + 1 :] for at in range(len(locked))
    ]
    bad = [(key, one, b"place") for one in (locked[:-1], locked[:20], b"", *flipped)]
    for wrong in (*bad, (fresh(), locked, b"place"), (key, locked, b"other")):
        with pytest.raises(ProtocolFault):
            unlock(*wrong)
    with pytest.raises(InvalidInput):
        lock(bytes(16), b"", b"")


def test_private_keys_show_and_copy_themselves_nowhere() -> None:
    for pair in (KeyPair.new(), Identity.new()):
        assert "secret" in repr(pair)
        assert pair.public.hex() not in repr(pair)
        for lose in (pickle.dumps, copy.copy):
            with pytest.raises(TypeError):
                lose(pair)
    assert repr(KeyPair.new().secret) == "<secret>"


def test_faults_hold_nothing_of_what_was_received() -> None:
    public = b"\xa7" * 32
    with pytest.raises(ProtocolFault) as caught:
        agree(KeyPair.new(), public, b"")
    text = "".join(traceback.format_exception(caught.value)).split("ProtocolFault")[-1]
    assert "a7" not in text
    assert caught.value.__cause__ is None
    with pytest.raises(ProtocolFault) as caught:
        unlock(bytes(32), b"\xa7" * 40, b"")
    assert caught.value.__suppress_context__
    assert "a7" not in str(caught.value)
