"""What Protocol 1 of Uldp-FL, as published, shows its server whatever noise is added.

The server owns the Paillier key, and silos work on ciphertexts that it made.  Noise and masks enter
as plaintexts, and the noise in multiples of C = lcm(1..N_max) only, so two values carry none of it:
the remainder of what is decrypted, and the ciphertexts' randomness.  Written from the description
of the protocol in Kato et al. 2024, arXiv 2308.12210.
"""

from __future__ import annotations

import math


def protocol_1_residue(noise: int, deltas: tuple[int, ...], counts: tuple[int, ...]) -> int:
    """Return what Protocol 1 shows its server of one coordinate of one user, whatever the noise.

    The decrypted integer is V = sum_s C n_s / N d_s + C z with C = lcm(1..N_max) and z an integer:
    V mod C does not depend on z.  `deltas` d_s are encoded, `counts` n_s add up to N <= 20.

    >>> protocol_1_residue(0, (3, 4), (1, 6)) == protocol_1_residue(12345, (3, 4), (1, 6)) != 0
    True
    """
    common = math.lcm(*range(1, 21))
    total = sum(counts)
    weighted_sum = sum(common * n // total * d for d, n in zip(deltas, counts, strict=True))
    return (weighted_sum + common * noise) % common


def protocol_1_randomness(exponents: tuple[int, ...], added: int) -> int:
    """Return what is left of a silo's ciphertext when the server takes its plaintext out.

    The silo raises the server's own ciphertexts, of randomness g_u, to `exponents` e_u (weighted
    deltas), and adds its noise and its masks, `added`, to the plaintext.  The server decrypts, and
    finds prod_u g_u^(n e_u) mod n^2, whatever was added: 1 if the silo's users moved nothing.  With
    a key of 27 bits.

    >>> protocol_1_randomness((0, 0), 12345), protocol_1_randomness((3, 0), 12345) == 1
    (1, False)
    """
    p, q = 10_007, 10_009
    n, order = p * q, math.lcm(p - 1, q - 1)
    square, cipher = n * n, 1 + n * added
    for user, exponent in enumerate(exponents, 2):
        cipher = cipher * pow((1 + n) * pow(user, n, square), exponent, square) % square
    plain = (pow(cipher, order, square) - 1) // n * pow(order, -1, n) % n
    return cipher * pow(1 + n, -plain, square) % square
