"""A FastAPI application that runs sandboxed tools.

    RAW_CONFIG=config.json uvicorn web_app:app --host 127.0.0.1

When a client goes away, its request is cancelled, the handler is aborted, and its processes
are dead before the request ends.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

import raw_exec
import raw_exec.aio


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keep one runtime open as long as the application runs."""
    config = raw_exec.load_config(os.environ.get("RAW_CONFIG"))
    async with raw_exec.aio.open_runtime(config, cwd=os.environ.get("RAW_CWD", ".")) as runtime:
        app.state.runtime = runtime
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/tools")
async def tools() -> list[dict[str, Any]]:
    """Say what there is."""
    definitions: list[dict[str, Any]] = app.state.runtime.registry.definitions("openai")
    return definitions


@app.post("/tools/{name}")
async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run one call. A refusal is an answer, not an error of the application."""
    result = await app.state.runtime.registry.dispatch(name, arguments)
    answer: dict[str, Any] = result.as_dict()
    return answer
