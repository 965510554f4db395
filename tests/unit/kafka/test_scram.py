"""SCRAM, against the exchange printed in RFC 7677."""

from __future__ import annotations

import base64

import pytest

from mirrorfleet.kafka.scram import ScramError, ScramExchange

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(username: str = "user") -> ScramExchange:
    return ScramExchange("SCRAM-SHA-256", username, "pencil", NONCE)


def test_the_exchange_of_the_standard() -> None:
    scram = exchange()
    assert scram.first() == FIRST
    assert scram.final(CHALLENGE) == FINAL
    scram.check(LAST)


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    scram = exchange()
    scram.final(CHALLENGE)
    with pytest.raises(ScramError, match="does not know the password"):
        scram.check(b"v=" + base64.b64encode(b"x" * 32))


def test_the_servers_own_words_are_kept() -> None:
    scram = exchange()
    scram.final(CHALLENGE)
    with pytest.raises(ScramError, match="other-error"):
        scram.check(b"e=other-error")


def test_names_with_commas_and_equals_signs_are_escaped() -> None:
    assert exchange("a=b,c").first() == b"n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO"


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (CHALLENGE.replace(b"rOpr", b"xxxx"), "nonce does not continue ours"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not continue ours"),
        (CHALLENGE.replace(b"i=4096", b"i=1"), "wants 1 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=2000000000"), "wants 2000000000 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=many"), "is not SCRAM"),
        (CHALLENGE.replace(b"W22Z", b"!!!!"), "bad base64"),
        (b"e=unknown-user", "unknown-user"),
        (b"\xff\xfe", "not UTF-8"),
        (b"", "is not SCRAM"),
    ],
)
def test_a_challenge_that_must_not_be_answered(challenge: bytes, why: str) -> None:
    with pytest.raises(ScramError, match=why):
        exchange().final(challenge)
