"""Log in to a server from a terminal: the device authorisation grant of RFC 8628.

Contract source: registry wire interface §1.4.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import Invalid, StoreError, Unauthenticated
from .credentials import Credential
from .transport import Transport, is_private

__all__ = ["Login", "log_in"]

_SLOWER_SECONDS: Final = 5.0
_MAX_INTERVAL_SECONDS: Final = 60.0
_MAX_LIFE_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Login:
    """What a person has to do: approve ``user_code``, at ``verification_uri``."""

    user_code: str
    verification_uri: str
    device_code: str = field(repr=False)
    interval: float
    expires_in: float


def log_in(
    url: str,
    *,
    label: str,
    tell: Callable[[Login], None],
    allow_plain: bool = False,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Credential:
    """Start a login, tell how to approve it, and wait until that is done.

    Args:
        label: What the key is for, shown to whoever approves.
        allow_plain: Allow http to another machine, where others can read the key.

    Raises:
        Invalid: ``registry_url`` or ``plain_http``.
        Unauthenticated: ``login_denied``, ``login_expired`` or ``login_failed``.
        StoreError: ``registry_unreachable`` or ``bad_answer``.
    """
    transport = Transport(url, sleep=sleep)
    if not allow_plain and not is_private(transport.url):
        raise Invalid(
            "plain_http",
            f"registry {transport.url} would send the key where others can read it",
            hint="use https, or --plain-http on a network that you trust",
        )
    status, answer = transport.post("/oauth/device/code", {"deviceLabel": label})
    login = _read_login(status, answer)
    tell(login)
    deadline = now() + login.expires_in
    interval = login.interval
    while now() < deadline:
        sleep(interval)
        status, answer = transport.post("/oauth/device/token", {"deviceCode": login.device_code})
        if status == 200:
            return _read_credential(answer)
        word = answer.get("error") if isinstance(answer, dict) else None
        if word == "slow_down":
            interval = min(interval + _SLOWER_SECONDS, _MAX_INTERVAL_SECONDS)
        elif word != "authorization_pending":
            raise _refused(word, answer)
    raise _refused("expired_token", None)


def _read_login(status: int, answer: Any) -> Login:
    try:
        if status != 200:
            raise ValueError(status)
        interval, life = float(answer["interval"]), float(answer["expiresIn"])
        texts = [answer[key] for key in ("userCode", "verificationUri", "deviceCode")]
        if not all(isinstance(text, str) and text for text in texts) or not life > 0:
            raise ValueError("fields")
    except (KeyError, TypeError, ValueError) as exc:
        raise StoreError(
            "bad_answer",
            f"the registry did not start a login (status {status})",
            hint="check that a registry runs at this address",
        ) from exc
    bounded = min(max(interval, 1.0), _MAX_INTERVAL_SECONDS)
    return Login(texts[0], texts[1], texts[2], bounded, min(life, _MAX_LIFE_SECONDS))


def _read_credential(answer: Any) -> Credential:
    keys = ("apiKey", "userId", "keyId")
    found = [answer.get(key) if isinstance(answer, dict) else None for key in keys]
    if not all(isinstance(text, str) and text for text in found):
        raise StoreError(
            "bad_answer", "the registry's key can not be read", hint="start the login again"
        )
    return Credential(str(found[0]), str(found[1]), str(found[2]))


def _refused(word: object, answer: Any) -> Unauthenticated:
    if word == "access_denied":
        return Unauthenticated("login_denied", "this login was denied", hint="ask who runs it")
    if word == "expired_token":
        return Unauthenticated(
            "login_expired", "this login was not approved in time", hint="start it again"
        )
    told = answer.get("error_description") if isinstance(answer, dict) else None
    reason = told if isinstance(told, str) else str(word)
    return Unauthenticated("login_failed", f"the login failed: {reason}", hint="start it again")
