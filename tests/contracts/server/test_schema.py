"""The schema holds all that the wire interface says, with the types that clients declare."""

from __future__ import annotations

import re
from pathlib import Path

from graphql import build_schema, find_breaking_changes, parse, validate

from raw_exec.contracts.server.executing import load_schema


def _specified(shared: Path) -> str:
    text = (shared / "spec" / "registry-wire.md").read_text("utf-8")
    blocks = re.findall(r"```graphql\n(.*?)```", text, re.DOTALL)
    (block,) = [one for one in blocks if "type Mutation" in one]
    return block


def test_whatever_is_valid_against_the_specified_schema_is_valid_here(shared: Path) -> None:
    """Registry wire interface §3."""
    assert find_breaking_changes(build_schema(_specified(shared)), load_schema()) == []


def test_the_documents_that_installers_send_are_valid_and_byte_for_byte_theirs() -> None:
    """Registry wire interface §2.5: commas for separators, or none at all."""
    fetch = (
        "query ($constraint:String!$promptName:ID!$status:PromptVersionStatus)"
        "{prompt(promptName: $promptName){description,kind,version(constraint: $constraint, "
        "status: $status){version,status,metadata,outputSchema,modelConfig{provider,model,"
        "parameters},files{name,content,isEntrypoint,format,inputSchema,optionInputSchema,"
        "schemaWarnings},tools{alias,toolVersion{version,status,modelDescription,inputSchema,"
        "outputSchema,metadata,tool{name,workspace{name}}}},decisionSpec}}}"
    )
    collection = "query ($name:ID!){promptCollection(name: $name){prompts{name}}}"
    for document in (fetch, collection):
        assert validate(load_schema(), parse(document)) == []
