"""The client over TLS: whom it believes, and how it shows who it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from optsched.client import Client, Settings
from optsched.errors import NoAnswer, NotNamed, UsageError
from tests.certificates import write_pki
from tests.server.test_access import TOKENS, Role, write_tokens
from tests.server.threaded import Threaded, threaded


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pki(tmp_path_factory.mktemp("pki"), **{"front-end": "front-end"})


@pytest.fixture(scope="module")
def here(pki: Path) -> Iterator[Threaded]:
    """A service that wants certificates of its callers; that of `front-end` stands for a token."""
    given = {
        "tls_certificate": str(pki / "server.pem"),
        "tls_key": str(pki / "server.key"),
        "tls_client_ca": str(pki / "ca.pem"),
        "tokens": write_tokens(pki),
    }
    with threaded(pki, **given) as made:
        yield made


def settings(here: Threaded, **more: str) -> Settings:
    return Settings(scheduler=here.address, patience_s=0, **more)  # type: ignore[arg-type]


def own(pki: Path) -> dict[str, str]:
    return {"tls_certificate": str(pki / "front-end.pem"), "tls_key": str(pki / "front-end.key")}


def test_a_certificate_may_stand_for_a_token(here: Threaded, pki: Path) -> None:
    with Client(settings(here, tls_ca=str(pki / "ca.pem"), **own(pki))) as client:
        assert client.status().leads
        assert client.page_of_nodes().total == 0
    with Client(settings(here, tls_ca=str(pki / "ca.pem"), **own(pki), token=TOKENS[Role.SUBMITTER])) as client:
        assert client.status().leads, "or go with one"
    wrong = settings(here, tls_ca=str(pki / "ca.pem"), **own(pki), token="wrong")
    with Client(wrong) as client, pytest.raises(NotNamed, match="the token is not known"):
        client.status()


@pytest.mark.parametrize("given", ["nothing", "another authority", "no certificate"])
def test_who_does_not_believe_or_is_not_believed_is_told_in_a_line(here: Threaded, pki: Path, given: str) -> None:
    more = {
        "nothing": {},
        "another authority": {"tls_ca": str(pki / "other.pem"), **own(pki)},
        "no certificate": {"tls_ca": str(pki / "ca.pem")},
    }[given]
    with Client(settings(here, **more)) as client, pytest.raises(NoAnswer) as caught:
        client.status()
    words = str(caught.value)
    assert words.startswith(f"no scheduler answers at {here.address}: ")
    assert "\n" not in words
    hint = {"nothing": "Socket closed; does it want TLS (tls_ca)?", "another authority": "CERTIFICATE_VERIFY_FAILED"}
    assert hint.get(given, "Socket closed; does it want a certificate (tls_certificate)?") in words


def test_files_that_do_not_do_are_named_with_their_option(pki: Path, tmp_path: Path) -> None:
    text, token = tmp_path / "lab.yaml", tmp_path / "token"
    text.write_text("name: lab\n")
    token.write_bytes(b"two\nlines\xff")
    ca = {"tls_ca": str(pki / "ca.pem")}
    given: list[tuple[dict[str, str], str]] = [
        ({"tls_ca": str(text)}, f"tls_ca: {text} holds no certificate; allowed: a PEM file"),
        ({**ca, **own(pki), "tls_key": str(text)}, f"tls_certificate, tls_key: {pki}/front-end.pem and {text} cannot"),
        (
            {**ca, **own(pki), "tls_key": str(pki / "server.key")},
            f"tls_certificate, tls_key: {pki}/front-end.pem and {pki}/server.key cannot be used (KEY_VALUES_MISMATCH)",
        ),
        ({"tls_ca": str(tmp_path / "none.pem")}, f"{tmp_path}/none.pem cannot be read: No such file or directory"),
        ({"token_file": str(token)}, f"token_file: {token} holds no token; allowed: a file with one line of ASCII"),
        ({"token": "two words"}, "token: given no token; allowed: one line of ASCII, without blanks"),
    ]
    for more, said in given:
        nobody = Settings(scheduler="127.0.0.1:1", patience_s=0, **more)  # type: ignore[arg-type]
        with Client(nobody) as client, pytest.raises(UsageError) as caught:
            client.status()
        assert str(caught.value).startswith(said)
        assert "\n" not in str(caught.value)
