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

from ...cases import for_each

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
    found = {
        agree(one, two.public, b"a"),
        agree(one, two.public, b"b"),
        agree(one, two.public, b""),
        agree(one, three.public, b"a"),
        agree(two, three.public, b"a"),
    }
    assert len(found) == 5


@for_each("number", LOW_ORDER)
def test_points_of_low_order_are_refused(number: int) -> None:
    with pytest.raises(ProtocolFault):
        agree(KeyPair.new(), encoded(number), b"")


@for_each(
    "public",
    [
        b"",
        bytes(31),
        bytes(33),
        encoded(FIELD),
        encoded(FIELD + 9),
        encoded(2**255 + 9),
        b"\xff" * 32,
    ],
)
def test_malformed_points_are_refused(public: bytes) -> None:
    with pytest.raises(ProtocolFault):
        check_public(public)
    with pytest.raises(ProtocolFault):
        agree(KeyPair.new(), public, b"")


def test_the_base_point_is_let_through() -> None:
    assert check_public(encoded(9)) == encoded(9)
    assert len(agree(KeyPair.new(), encoded(9), b"")) == 32


def test_ones_own_key_sent_back_is_refused() -> None:
    own = KeyPair.new()
    with pytest.raises(ProtocolFault):
        agree(own, own.public, b"")


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


def test_nothing_is_derived_from_short_secrets_or_at_great_length() -> None:
    with pytest.raises(InvalidInput):
        derive(bytes(15), b"label")
    with pytest.raises(InvalidInput):
        derive(bytes(16), b"label", 8161)
    assert len(derive(bytes(16), b"label", 8160)) == 8160


def test_fresh_bytes_differ() -> None:
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


@for_each("change", ["content", "signature", "short", "signer", "key"])
def test_wrong_signatures_are_refused(change: str) -> None:
    identity, content = Identity.new(), b"content"
    signature, public = identity.sign(content), identity.public
    verify(public, signature, content)
    if change == "content":
        content = b"Content"
    elif change == "signature":
        signature = signature[:-1] + bytes([signature[-1] ^ 1])
    elif change == "short":
        signature = signature[:-1]
    elif change == "signer":
        public = Identity.new().public
    else:
        public = public[:-1]
    with pytest.raises(ProtocolFault):
        verify(public, signature, content)


def test_a_lock_opens_with_the_same_key_and_place_only() -> None:
    key = fresh()
    locked = lock(key, b"words", b"place")
    assert len(locked) == 5 + LOCK_BYTES
    assert unlock(key, locked, b"place") == b"words"
    assert b"words" not in locked
    assert locked != lock(key, b"words", b"place")
    for bad in [
        (fresh(), locked, b"place"),
        (key, locked, b"other"),
        (key, locked[:-1], b"place"),
        (key, locked[:20], b"place"),
        (key, b"", b"place"),
    ]:
        with pytest.raises(ProtocolFault):
            unlock(*bad)
    for index in range(len(locked)):
        changed = bytearray(locked)
        changed[index] ^= 1
        with pytest.raises(ProtocolFault):
            unlock(key, bytes(changed), b"place")
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
