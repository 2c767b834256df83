"""The OpenAPI document describes what the service does; somebody else's program says so.

It is installed from PyPI into an environment of its own, since it pins versions that differ
from ours, and only run.
"""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import trio

from foreign import foreign_program
from raw_exec.adapters.http import KeyFile, ServiceLimits
from raw_exec.adapters.http.answers import ERROR_STATUS
from raw_exec.adapters.http.app import make_app
from raw_exec.adapters.http.openapi import openapi_document

VERSION = "4.32.5"
CONFIG = """
# No schema says that an integer of any value beyond 2**53-1 is refused, while 1e300 is not.
[[operations]]
include-operation-id = "makeCall"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "403", "404", "409", "429"]
"""


@pytest.fixture(scope="session")
def schemathesis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program: ``$SCHEMATHESIS``, or one installed into a scratch environment."""
    return foreign_program(tmp_path_factory, "schemathesis", f"schemathesis=={VERSION}")


async def test_generated_requests_get_what_the_document_promises(
    schemathesis, serve, write, tmp_path
) -> None:
    """Schemathesis finds no status, body or header that the document does not have."""
    keys = KeyFile(tmp_path / "keys.json")
    _, token = keys.add("anna")
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    async with serve(write("echo", "panel"), keys=keys, approvals=True) as served:
        command = [
            str(schemathesis),
            "run",
            f"http://127.0.0.1:{served.port}/openapi.json",
            "--header",
            f"Authorization: Bearer {token}",
            "--checks=all",
            "--phases=examples,coverage,fuzzing,stateful",
            "--max-examples=8",
            "--generation-deterministic",
            "--request-timeout=20",
            "--no-color",
        ]
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False, cwd=tmp_path
        )
        output = done.stdout.decode()
        assert done.returncode == 0, output[-6000:]
        assert "13 selected / 13 total" in output
        async with served.connect(token) as client:
            assert (await client.call("echo", {"text": "x"})).json["is_error"] is False


async def test_the_document_has_every_route_and_fits_real_answers(serve, write) -> None:
    """Routes and document are compared both ways; outcomes are checked against its schemas."""
    async with serve(write("echo", "panel")) as served, served.connect() as client:
        document = (await client.ask("GET", "/openapi.json")).json
        assert document == openapi_document(ServiceLimits(drain_seconds=0.0))

        def check(name: str, value: object) -> None:
            schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
            jsonschema.Draft202012Validator(schema).validate(value)

        check("Result", (await client.call("echo", {"text": "x"})).json)
        check("Result", (await client.call("echo", {})).json)
        check("Tools", (await client.ask("GET", "/v1/tools")).json)
        check("Tools", (await client.ask("GET", "/v1/tools?profile=openai")).json)
        made = (await client.call("panel", {"steps": 1}, call_id="c", **{"async": True})).json
        check("Call", made)
        check("Call", (await client.ask("DELETE", "/v1/calls/c")).json)
        check("Error", (await client.ask("GET", "/v1/calls/x")).json)
        check("SessionOpened", (await client.ask("POST", "/v1/sessions", {"session": "s"})).json)
        await client.call("panel", {"steps": 1}, session="s")
        check("Session", (await client.ask("GET", "/v1/sessions/s")).json)

    class Nothing:
        limits = ServiceLimits()

    routes = {
        (route.path, method.lower())
        for route in make_app(Nothing()).routes
        for method in route.methods - {"HEAD"}
    }
    described = {
        (path, method)
        for path, item in document["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert routes == described


def test_every_code_of_the_service_is_documented() -> None:
    """docs/http.md lists what a client can be told."""
    page = (Path(__file__).parents[3] / "docs" / "http.md").read_text()
    assert [code for code in ERROR_STATUS if f"`{code}`" not in page] == []
