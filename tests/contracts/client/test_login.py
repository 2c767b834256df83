"""Logging in from a terminal, and the file that keeps the keys."""

from __future__ import annotations

import os
import stat
from typing import Any

import pytest

from raw_exec.contracts.client import Credential, Credentials, log_in
from raw_exec.contracts.client import login as login_module
from raw_exec.contracts.errors import Invalid, StoreError, Unauthenticated
from raw_exec.errors import ConfigError

URL = "https://registry.test"
STARTED = {
    "deviceCode": "device-secret",
    "userCode": "ABCD-EFGH",
    "verificationUri": f"{URL}/device",
    "interval": 2,
    "expiresIn": 60,
}
GRANTED = {"apiKey": "rxu_key", "userId": "user_1", "keyId": "key_1"}


class Scene:
    """A server that answers from a list, and a clock that sleeping moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[tuple[int, Any]] = [(200, STARTED)]
        self.sent: list[tuple[str, Any]] = []
        self.slept: list[float] = []
        self.told: list[Any] = []
        scene = self

        class Transport:
            def __init__(self, url: str, **_named: Any) -> None:
                self.url = url

            def post(self, path: str, body: Any) -> tuple[int, Any]:
                scene.sent.append((path, body))
                return scene.answers.pop(0)

        monkeypatch.setattr(login_module, "Transport", Transport)

    def log_in(self, url: str = URL, **named: Any) -> Credential:
        return log_in(
            url,
            label="a test",
            tell=self.told.append,
            sleep=self.slept.append,
            now=lambda: sum(self.slept),
            **named,
        )


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_login_waits_until_it_is_approved_and_returns_the_key(scene) -> None:
    """Contract: device flow of the wire interface; slow_down adds five seconds."""
    pending = (400, {"error": "authorization_pending"})
    scene.answers += [pending, (400, {"error": "slow_down"}), pending, (200, GRANTED)]
    assert scene.log_in() == Credential("rxu_key", "user_1", "key_1")
    assert scene.slept == [2.0, 2.0, 7.0, 7.0]
    assert [path for path, _ in scene.sent] == ["/oauth/device/code"] + ["/oauth/device/token"] * 4
    assert scene.sent[0][1] == {"deviceLabel": "a test"}
    assert scene.sent[1][1] == {"deviceCode": "device-secret"}
    assert (scene.told[0].user_code, scene.told[0].verification_uri) == (
        "ABCD-EFGH",
        f"{URL}/device",
    )


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("access_denied", "login_denied"),
        ("expired_token", "login_expired"),
        ("invalid_grant", "login_failed"),
        (None, "login_failed"),
    ],
)
def test_a_login_that_is_not_granted_says_why(scene, word, code) -> None:
    """RFC 8628 words become sentences."""
    scene.answers.append((400, {"error": word, "error_description": "reasons"}))
    with pytest.raises(Unauthenticated) as caught:
        scene.log_in()
    assert caught.value.code == code


def test_a_login_that_nobody_approves_ends_when_its_code_expires(scene) -> None:
    """The client gives up by its own clock, too."""
    scene.answers += [(400, {"error": "authorization_pending"})] * 30
    with pytest.raises(Unauthenticated) as caught:
        scene.log_in()
    assert caught.value.code == "login_expired"
    assert sum(scene.slept) == 60


@pytest.mark.parametrize(
    "answer",
    [
        (201, STARTED),
        (200, {}),
        (200, None),
        (200, STARTED | {"expiresIn": 0}),
        (200, STARTED | {"interval": "soon"}),
        (200, STARTED | {"userCode": 5}),
        (200, STARTED | {"expiresIn": float("nan")}),
    ],
    ids=range(7),
)
def test_a_login_that_does_not_start_right_is_told(scene, answer) -> None:
    """A stranger's answer can not make the client wait for ever."""
    scene.answers[:] = [answer]
    with pytest.raises(StoreError):
        scene.log_in()


@pytest.mark.parametrize("answer", [{}, None, GRANTED | {"apiKey": ""}, GRANTED | {"keyId": 5}])
def test_a_grant_without_a_key_is_not_kept(scene, answer) -> None:
    """Empty credentials would only fail later."""
    scene.answers.append((200, answer))
    with pytest.raises(StoreError):
        scene.log_in()


def test_http_to_another_machine_has_to_be_asked_for(scene) -> None:
    """Security: the key would travel where others read it; loopback is fine."""
    with pytest.raises(Invalid) as caught:
        scene.log_in("http://registry.test")
    assert (caught.value.code, scene.sent) == ("plain_http", [])
    for url, allow in (("http://registry.test", True), ("http://127.0.0.1:8930", False)):
        scene.answers[:] = [(200, STARTED), (200, GRANTED)]
        assert scene.log_in(url, allow_plain=allow).token == "rxu_key"


def test_the_representation_of_a_login_and_of_a_key_hides_what_is_secret(scene) -> None:
    """Security: both get logged sooner or later."""
    scene.answers.append((200, GRANTED))
    shown = repr(scene.log_in()) + repr(scene.told)
    assert "rxu_key" not in shown
    assert "device-secret" not in shown


# -- the file


def test_keys_are_kept_per_registry_in_a_file_for_the_owner_alone(tmp_path) -> None:
    """Security: mode 0600, and found by the exact address only."""
    known = Credentials(tmp_path / "raw" / "credentials.json")
    assert (known.load(), known.default()) == ({}, None)
    known.add("https://a.test/", Credential("ka", "u", "1"))
    assert known.default() == "https://a.test"
    known.add("https://b.test", Credential("kb", "u", "2"))
    assert known.default() is None
    assert stat.S_IMODE(known.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(known.path.parent.stat().st_mode) == 0o700
    assert known.find("https://a.test/graphql") == Credential("ka", "u", "1")
    assert known.find("http://a.test") is None
    assert known.find("https://a.test:8443") is None
    known.remove("https://a.test")
    assert list(known.load()) == ["https://b.test"]
    assert os.listdir(known.path.parent) == ["credentials.json"]


def test_keys_that_can_not_be_put_in_place_are_left_nowhere_else(tmp_path, monkeypatch) -> None:
    """Security: no half-made file with keys in it stays behind."""
    known = Credentials(tmp_path / "credentials.json")
    known.add("https://a.test", Credential("ka"))

    def fail(*_args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ConfigError) as caught:
        known.add("https://b.test", Credential("kb"))
    assert caught.value.code == "credentials_unwritable"
    assert (os.listdir(tmp_path), list(known.load())) == (["credentials.json"], ["https://a.test"])


def test_keys_that_others_can_read_are_refused(tmp_path) -> None:
    """Security: they have to be taken for stolen."""
    known = Credentials(tmp_path / "credentials.json")
    known.add("https://a.test", Credential("k"))
    known.path.chmod(0o640)
    with pytest.raises(ConfigError) as caught:
        known.load()
    assert caught.value.code == "credentials_not_private"
    assert "chmod 600" in str(caught.value.hint)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"registries": []}', '{"registries": {"u": {"token": 5}}}']
)
def test_a_file_of_keys_that_is_none_is_told_and_not_overwritten(tmp_path, text) -> None:
    """Other keys in it would be lost."""
    known = Credentials(tmp_path / "credentials.json")
    known.path.write_text(text)
    known.path.chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        known.add("https://a.test", Credential("k"))
    assert caught.value.code == "credentials_invalid"
    assert known.path.read_text() == text
