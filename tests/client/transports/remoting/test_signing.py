"""Signatures of requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.transports.remoting.signing import compute_signature, sign_fields

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def test_a_signature_that_openssl_computes() -> None:
    # printf %s keyAtokenC00body | openssl dgst -sha1 -hmac secret -binary | base64
    signed = sign_fields({"b": "C", "topic": "0", "queueId": "0"}, b"body", "keyA", "secret", "token")
    assert signed == {"AccessKey": "keyA", "SecurityToken": "token", "Signature": "1H5vkIaniM+75jp5JQFHgFxNFps="}


def test_without_a_security_token() -> None:
    assert sign_fields({}, b"", "key", "secret").keys() == {"AccessKey", "Signature"}


def test_names_are_in_the_order_of_utf_16() -> None:
    # U+1F600 begins with the unit D83D and so comes before U+FF5E, although its number is larger.
    fields = {"\uff5e": "2", "\U0001f600": "1"}
    concatenated = {"a": "12"}
    assert sign_fields(fields, b"", "", "s")["Signature"] == sign_fields(concatenated, b"", "", "s")["Signature"]


@given(fields=st.dictionaries(TEXTS, TEXTS, max_size=4), body=st.binary(max_size=9), secret=TEXTS.filter(bool))
def test_a_signature_is_that_of_all_fields_and_the_body(fields: dict[str, str], body: bytes, secret: str) -> None:
    received = {**fields, **sign_fields(fields, body, "key", secret)}
    signature = received["Signature"]
    assert compute_signature(received, memoryview(body), secret) == signature
    assert compute_signature(received, body + b"x", secret) != signature
    assert compute_signature({**received, "added": "x"}, body, secret) != signature
    assert compute_signature(received, body, secret + "x") != signature
