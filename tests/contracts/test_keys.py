"""Keys and device logins: made once, used by whoever has them, over when they are over."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from sqlalchemy import text

from raw_exec.contracts import service as registry
from raw_exec.contracts.errors import Unauthenticated
from raw_exec.contracts.model import Principal


def test_a_key_is_its_holder_until_it_is_revoked(store, people) -> None:
    """Registry wire interface §1.4."""
    made = people.ask(people.member, registry.create_key, email="member@acme.test", label="ci")
    principal = store.read(lambda s: registry.authenticate(s, made.token, client="cli"))
    assert principal == dataclasses.replace(people.member, client="cli", key_id=made.key.id)
    assert people.ask(people.member, registry.revoke_key, made.key.id) is True
    assert people.ask(people.member, registry.revoke_key, made.key.id) is False
    with pytest.raises(Unauthenticated) as caught:
        store.read(lambda s: registry.authenticate(s, made.token, client="cli"))
    assert caught.value.code == "key_revoked"


def test_a_stolen_key_revoked_in_the_middle_of_a_request_stops_its_next_operation(people) -> None:
    """Fault: the principal was made before the key was revoked."""
    p = people
    thief = p.log_in("member@acme.test")
    p.ask(thief, registry.create_tool, "acme", "first")
    p.ask(p.member, registry.revoke_key, thief.key_id)
    for operation, args in (
        (registry.create_tool, ("acme", "second")),
        (registry.get_tool, ("acme", "first")),
        (registry.list_tools, ("acme",)),
        (registry.me, ()),
        (registry.my_memberships, ()),
        (registry.list_keys, ()),
        (registry.revoke_key, ("key_x",)),
    ):
        assert p.refused(thief, operation, *args).code == "key_revoked"


def test_a_key_expires(store, people, clock) -> None:
    """Our choice: a key may be given an end."""
    p = people
    later = clock() + timedelta(hours=1)
    made = p.ask(p.operator, registry.create_key, email="member@acme.test", expires_at=later)
    principal = store.read(lambda s: registry.authenticate(s, made.token, client="web"))
    clock.advance(3600)
    assert p.refused(principal, registry.me).code == "key_expired"
    past = p.refused(p.operator, registry.create_key, workspace="acme", expires_at=later)
    assert past.code == "key_expiry"


@pytest.mark.parametrize("token", ["", "x", "rxu_" + "A" * 43, "x" * 1_000_000, "\ud800", "' OR 1"])
def test_an_unknown_token_is_refused(store, people, token: str) -> None:
    """Security: whatever is sent."""
    with pytest.raises(Unauthenticated) as caught:
        store.read(lambda s: registry.authenticate(s, token, client="web"))
    assert caught.value.code == "key_unknown"
    assert store.read(lambda s: registry.authenticate(s, None, client="cli")) == (
        Principal.anonymous("cli")
    )


def test_the_database_and_representations_hold_no_token(store, people) -> None:
    """Security: a copy of the file must not log anybody in."""
    made = people.ask(people.operator, registry.create_key, workspace="acme")
    assert made.token not in repr(made)
    rows = store.read(lambda s: s.execute(text("SELECT * FROM api_keys")).all())
    assert made.token not in repr(rows)


def test_people_make_list_and_revoke_their_own_keys_only(people) -> None:
    """Security: keys of others do not exist for them."""
    p = people
    other = p.refused(p.member, registry.create_key, email="owner@acme.test")
    assert other.code == "not_your_key"
    assert p.refused(p.member, registry.create_key, workspace="acme").code == "needs_admin"
    assert p.refused(p.member, registry.create_key).code == "key_holder"
    made = p.ask(p.admin, registry.create_key, workspace="acme", label="install")
    assert p.refused(p.member, registry.revoke_key, made.key.id).code == "key_id_unknown"
    assert p.refused(p.member, registry.revoke_key, p.owner.key_id).code == "key_id_unknown"
    mine = p.ask(p.member, registry.list_keys)
    assert [one.id for one in mine] == [p.member.key_id]
    assert p.ask(p.admin, registry.list_keys, workspace="acme") == (made.key,)
    assert p.ask(p.owner, registry.revoke_key, made.key.id) is True


def _start(store):
    return store.write(lambda s: registry.start_device_login(s, "laptop"))


def _poll(store, login):
    return store.write(lambda s: registry.poll_device(s, login.device_code))


def test_a_login_waits_is_approved_and_collected_once(any_store, any_people, clock) -> None:
    """Registry wire interface §1.4, on every database; a reused code is no login."""
    store, p = any_store, any_people
    login = _start(store)
    assert _poll(store, login).status == "authorization_pending"
    p.ask(p.member, registry.approve_device, login.user_code.lower())
    found = _poll(store, login)
    assert (found.status, found.user_id) == ("granted", p.member.user_id)
    principal = store.read(lambda s: registry.authenticate(s, found.token, client="cli"))
    assert p.ask(principal, registry.me).email == "member@acme.test"
    assert found.token not in repr(found)
    assert _poll(store, login).status == "invalid_grant"
    assert p.refused(p.member, registry.approve_device, login.user_code).code == (
        "device_code_used"
    )


def test_the_operator_approves_for_a_named_user(store, people) -> None:
    """``device approve --user EMAIL CODE``; a user only approves for themselves."""
    p = people
    login = _start(store)
    assert p.refused(p.operator, registry.approve_device, login.user_code).code == "needs_user"
    for_other = {"email": "owner@acme.test"}
    refused = p.refused(p.member, registry.approve_device, login.user_code, **for_other)
    assert refused.code == "not_your_login"
    assert p.refused(p.anonymous, registry.approve_device, login.user_code).code == "needs_user"
    p.ask(p.operator, registry.approve_device, login.user_code, **for_other)
    assert _poll(store, login).user_id == p.owner.user_id


def test_a_denied_login_is_told_so(store, people) -> None:
    """Registry wire interface §1.4."""
    login = _start(store)
    people.ask(people.member, registry.deny_device, login.user_code)
    assert _poll(store, login).status == "access_denied"


def test_an_expired_login_can_be_neither_approved_nor_collected(store, people, clock) -> None:
    """Fault: expired device codes."""
    p = people
    late, approved = _start(store), _start(store)
    p.ask(p.member, registry.approve_device, approved.user_code)
    clock.advance(late.expires_in)
    assert _poll(store, late).status == "expired_token"
    assert _poll(store, approved).status == "expired_token"
    refused = p.refused(p.member, registry.approve_device, late.user_code)
    assert refused.code == "device_code_unknown"
    clock.advance(3601)
    _start(store)
    assert _poll(store, late).status == "invalid_grant"


def test_polling_too_fast_is_slowed_down_and_polling_in_time_is_not(store, people, clock) -> None:
    """RFC 8628: ``slow_down`` adds five seconds."""
    login = _start(store)
    assert _poll(store, login).status == "authorization_pending"
    clock.advance(login.interval)
    assert _poll(store, login).status == "authorization_pending"
    assert _poll(store, login).status == "slow_down"
    clock.advance(login.interval)
    assert _poll(store, login).status == "slow_down"
    clock.advance(login.interval + 10)
    assert _poll(store, login).status == "authorization_pending"


@pytest.mark.parametrize("code", ["", "nonsense", "x" * 10_000, "\ud800", "' OR 1=1 --"])
def test_a_made_up_device_code_is_no_login(store, people, code: str) -> None:
    """Security: both codes."""
    assert store.write(lambda s: registry.poll_device(s, code)).status == "invalid_grant"
    refused = people.refused(people.member, registry.approve_device, code)
    assert refused.code == "device_code_unknown"
