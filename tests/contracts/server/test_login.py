"""Device logins over HTTP, in the words that the public CLI knows."""

from __future__ import annotations

import pytest

from raw_exec.contracts import service as registry

CODE = "/oauth/device/code"
TOKEN = "/oauth/device/token"


async def _start(asker, label: str = "laptop (linux)") -> dict[str, object]:
    answer = await asker.post(CODE, {"deviceLabel": label})
    assert answer.status == 200
    return answer.json


async def _poll(asker, login) -> tuple[int, str]:
    answer = await asker.post(TOKEN, {"deviceCode": login["deviceCode"]})
    if answer.status == 400:
        assert answer.json["error_description"]
        return 400, answer.json["error"]
    return answer.status, answer.json


async def test_a_program_is_approved_and_gets_its_key_once(anonymous, people, clock) -> None:
    """Registry wire interface §1.4: start, poll, approve, collect; a reused code is refused."""
    login = await _start(anonymous)
    assert login.keys() == {"deviceCode", "userCode", "verificationUri", "interval", "expiresIn"}
    assert login["verificationUri"] == "http://registry.test/device"
    assert (login["interval"], login["expiresIn"]) == (2, 600)
    assert await _poll(anonymous, login) == (400, "authorization_pending")
    people.ask(
        people.operator, registry.approve_device, login["userCode"], email="member@acme.test"
    )
    clock.advance(2)
    status, granted = await _poll(anonymous, login)
    assert (status, granted.keys()) == (200, {"apiKey", "userId", "keyId"})
    me = await anonymous.of(token=granted["apiKey"]).ask("{ me { id email } }")
    assert me.data == {"me": {"id": granted["userId"], "email": "member@acme.test"}}
    assert await _poll(anonymous, login) == (400, "invalid_grant")
    error = people.refused(
        people.operator, registry.approve_device, login["userCode"], email="member@acme.test"
    )
    assert error.code == "device_code_used"
    (key,) = [
        one for one in people.ask(people.operator, registry.list_keys) if one.id == granted["keyId"]
    ]
    assert key.label == "laptop (linux)"


async def test_each_way_that_a_login_ends_has_its_word(anonymous, people, clock) -> None:
    """Registry wire interface §1.4: the words of RFC 8628."""
    denied, expired, hasty = [await _start(anonymous) for _ in range(3)]
    people.ask(people.operator, registry.deny_device, denied["userCode"])
    assert await _poll(anonymous, denied) == (400, "access_denied")
    assert await _poll(anonymous, hasty) == (400, "authorization_pending")
    assert await _poll(anonymous, hasty) == (400, "slow_down")
    clock.advance(600)
    assert await _poll(anonymous, expired) == (400, "expired_token")
    assert await _poll(anonymous, {"deviceCode": "x" * 43}) == (400, "invalid_grant")
    error = people.refused(
        people.operator, registry.approve_device, expired["userCode"], email="member@acme.test"
    )
    assert error.code == "device_code_unknown"


@pytest.mark.parametrize("body", [{}, [], None, {"deviceCode": 5}, {"deviceCode": None}, "x"])
async def test_a_poll_that_makes_no_sense_is_refused(anonymous, body) -> None:
    """Our choice: 400, because the public CLI reads only that as an answer."""
    answer = await anonymous.post(TOKEN, body)
    assert (answer.status, answer.json["error"]) == (400, "invalid_request")


async def test_a_label_is_optional_text_of_bounded_length(anonymous) -> None:
    """Our choice: it is shown in lists of keys."""
    assert (await anonymous.post(CODE, {})).status == 200
    for body in ({"deviceLabel": "x" * 201}, {"deviceLabel": 5}, {"deviceLabel": "a\0"}, []):
        answer = await anonymous.post(CODE, body)
        assert (answer.status, answer.json["error"]) == (400, "invalid_request")
    big = await anonymous.post(CODE, {"deviceLabel": "x" * 20_000})
    assert (big.status, big.json["error"]) == (400, "invalid_request")


async def test_the_page_for_people_repeats_nothing_of_the_request(anonymous) -> None:
    """Security: a link must not put words into the registry's mouth."""
    answer = await anonymous.send("GET", "/device")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert b"raw registry device approve" in answer.body


async def test_an_address_that_asks_without_end_is_slowed_down(serve, store, people, ticks) -> None:
    """Security: anybody may start a login, but not fill the database with them."""
    asker = serve(store, burst=3, per_second=0.5)
    login = await _start(asker)
    for _ in range(2):
        await _start(asker)
    refused = await asker.post(CODE, {"deviceLabel": "x"})
    assert (refused.status, refused.headers["retry-after"]) == (429, "2")
    assert await _poll(asker, login) == (400, "slow_down")
    ticks.seconds += 2
    assert await _poll(asker, login) == (400, "authorization_pending")
