"""Every operation of the wire interface over HTTP, and the shape of every refusal."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from raw_exec.contracts import service as registry
from raw_exec.contracts.model import Visibility

TOOL = "id name description visibility tags createdAt updatedAt"
TV = "version status modelDescription inputSchema outputSchema metadata readme createdAt updatedAt"
PROMPT = "name description visibility kind createdAt updatedAt"
PV = (
    "version status createdAt updatedAt metadata outputSchema decisionSpec "
    "modelConfig { provider model parameters } readme files { name content isEntrypoint format }"
)
PINS = (
    "tools { alias toolVersion { version status modelDescription tool { name workspace { name } } }"
    " }"
)
NOW = "2026-01-02T03:04:05Z"
EMPTY = {"type": "object", "properties": {}}
GET_TOOL = "query($t: ID!) { tool(toolName: $t) { name } }"


async def test_an_account_sees_itself_and_its_workspaces(member) -> None:
    """Registry wire interface §2.1."""
    answer = await member.ask(
        "query Me { me { id email memberships { role workspace { name displayName description } } "
        "} }"
    )
    me = answer.data["me"]
    assert me.pop("id").startswith("user_")
    assert me == {
        "email": "member@acme.test",
        "memberships": [
            {
                "role": "MEMBER",
                "workspace": {"name": "acme", "displayName": "Acme Inc", "description": None},
            }
        ],
    }
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"


async def test_a_tool_from_creation_to_publication(member) -> None:
    """Registry wire interface §2.2."""
    made = await member.ask(
        f"mutation CreateTool($name: String!, $description: String) {{ createTool(name: $name, "
        f"description: $description) {{ {TOOL} }} }}",
        name="fetch-page",
        description="x",
    )
    tool = made.data["createTool"]
    assert tool.pop("id").startswith("tool_")
    assert tool == {
        "name": "fetch-page",
        "description": "x",
        "visibility": "PRIVATE",
        "tags": [],
        "createdAt": NOW,
        "updatedAt": NOW,
    }
    update = (
        "mutation UpdateToolVersion($toolName: ID!, $version: ID!, $input: "
        f"UpdateToolVersionInput!) {{ updateToolVersion(toolName: $toolName, version: $version, "
        f"input: $input) {{ {TV} }} }}"
    )
    schema = {"type": "object", "properties": {"url": {"type": "string"}}}
    for change in (
        {"inputSchema": schema},
        {"outputSchema": {"type": "string"}},
        {"modelDescription": "Fetch."},
        {"readme": "# R"},
        {"metadata": {"owner": "me", "n": 5}},
    ):
        answer = await member.ask(update, toolName="fetch-page", version="draft", input=change)
        changed = answer.data["updateToolVersion"]
    expected = {
        "version": "0.0.1-draft.0",
        "status": "DRAFT",
        "modelDescription": "Fetch.",
        "inputSchema": schema,
        "outputSchema": {"type": "string"},
        "metadata": {"owner": "me", "n": 5},
        "readme": "# R",
        "createdAt": NOW,
        "updatedAt": NOW,
    }
    assert changed == expected
    cleared = await member.ask(
        update,
        toolName="fetch-page",
        version="0.0.1-draft.0",
        input={"outputSchema": None, "readme": None, "modelDescription": None, "metadata": None},
    )
    gone = {"outputSchema": None, "readme": "", "modelDescription": "", "metadata": {}}
    assert cleared.data["updateToolVersion"] == {**expected, **gone}
    refused = await member.ask(
        update, toolName="fetch-page", version="draft", input={"inputSchema": None}
    )
    assert refused.rule == (200, "BAD_USER_INPUT", "bad_json")

    publish = (
        "mutation PublishToolVersion($toolName: ID!, $version: String!) { publishToolVersion("
        "toolName: $toolName, version: $version) { version status } }"
    )
    done = await member.ask(publish, toolName="fetch-page", version="1.0.0")
    assert done.data["publishToolVersion"] == {"version": "1.0.0", "status": "PUBLISHED"}
    again = await member.ask(publish, toolName="fetch-page", version="1.0.0")
    assert again.rule == (200, "CONFLICT", "already_published")

    opened = await member.ask(
        "mutation($t: ID!) { createToolVersionDraft(toolName: $t) { version revision } }",
        t="fetch-page",
    )
    assert opened.data["createToolVersionDraft"] == {"version": "1.0.1-draft.0", "revision": 1}
    found = await member.ask(
        "query GetTool($toolName: ID!, $pagination: PaginationArgs!) { tool(toolName: $toolName) {"
        " name dependentCount versions(pagination: $pagination) { data { version status } total } "
        'workspace { name displayName } none: version(constraint: "^9") { version } '
        'latest: version(constraint: "^1") { version tool { name } } } }',
        toolName="fetch-page",
        pagination={"skip": 0, "take": 100},
    )
    assert found.data["tool"] == {
        "name": "fetch-page",
        "dependentCount": 0,
        "versions": {
            "data": [
                {"version": "1.0.1-draft.0", "status": "DRAFT"},
                {"version": "1.0.0", "status": "PUBLISHED"},
            ],
            "total": 2,
        },
        "workspace": {"name": "acme", "displayName": "Acme Inc"},
        "none": None,
        "latest": {"version": "1.0.0", "tool": {"name": "fetch-page"}},
    }
    only = await member.ask(
        "query($t: ID!, $p: PaginationArgs!, $s: ToolVersionStatus) { tool(toolName: $t) { "
        "versions(pagination: $p, status: $s) { data { version } total } } }",
        t="fetch-page",
        p={"skip": 0, "take": 5},
        s="DRAFT",
    )
    assert only.data["tool"]["versions"] == {"data": [{"version": "1.0.1-draft.0"}], "total": 1}
    deleted = await member.ask(
        'mutation { deleteToolVersion(toolName: "fetch-page", version: "draft") }'
    )
    assert deleted.data == {"deleteToolVersion": True}
    await member.ask('mutation { createTool(name: "other") { name } }')
    listed = await member.ask(
        "query ListTools($pagination: PaginationArgs!, $search: String) { tools(pagination: "
        "$pagination, search: $search) { data { name } total } }",
        pagination={"skip": 0, "take": 1},
        search="FETCH",
    )
    assert listed.data == {"tools": {"data": [{"name": "fetch-page"}], "total": 1}}


async def test_changes_can_be_held_to_what_was_seen(member) -> None:
    """A lost update is a conflict for a client that says what it saw."""
    await member.ask('mutation { createTool(name: "t") { name } }')
    patch = (
        "mutation($set: JSON, $delete: [String!], $seen: Int) { patchToolVersionMetadata("
        'toolName: "t", version: "draft", set: $set, delete: $delete, expectedRevision: $seen) '
        "{ metadata revision } }"
    )
    first = await member.ask(patch, set={"a": 1, "b": 2}, seen=1)
    assert first.data["patchToolVersionMetadata"] == {"metadata": {"a": 1, "b": 2}, "revision": 2}
    late = await member.ask(patch, set={"a": 3}, seen=1)
    assert late.rule == (200, "CONFLICT", "stale_revision")
    unseen = await member.ask(patch, set={"c": 4}, delete=["a"])
    assert unseen.data["patchToolVersionMetadata"]["metadata"] == {"b": 2, "c": 4}
    update = (
        'mutation($seen: Int) { updateToolVersion(toolName: "t", version: "draft", '
        'input: {readme: "x"}, expectedRevision: $seen) { revision } }'
    )
    assert (await member.ask(update, seen=1)).rule == (200, "CONFLICT", "stale_revision")
    assert (await member.ask(update, seen=3)).data["updateToolVersion"] == {"revision": 4}
    assert (await member.ask(patch, set=[1])).rule == (200, "BAD_USER_INPUT", "bad_json")


async def test_a_prompt_from_creation_to_publication(member, people) -> None:
    """Registry wire interface §2.3 and §2.4."""
    people.publish(people.member, "acme", "fetch-page", "1.0.0")
    made = await member.ask(
        "mutation CreatePrompt($name: String!, $description: String, $kind: PromptKind) { "
        f"createPrompt(name: $name, description: $description, kind: $kind) {{ {PROMPT} }} }}",
        name="brief",
        description="d",
    )
    assert made.data["createPrompt"] == {
        "name": "brief",
        "description": "d",
        "visibility": "PRIVATE",
        "kind": "LLM",
        "createdAt": NOW,
        "updatedAt": NOW,
    }
    at = {"promptName": "brief", "version": "draft"}
    declared = "$promptName: ID!, $version: ID!"
    passed = "promptName: $promptName, version: $version"

    async def change(field: str, more: str, given: str, select: str, /, **values) -> object:
        answer = await member.ask(
            f"mutation({declared}{more}) {{ {field}({passed}{given}) {select} }}", **at, **values
        )
        return answer.data[field]

    file = await change(
        "createPromptFile",
        ", $args: CreatePromptFileInput!",
        ", args: $args",
        "{ name content isEntrypoint format }",
        args={"name": "main", "content": "Hi {{topic}}", "isEntrypoint": True, "format": "YAML"},
    )
    assert file == {
        "name": "main",
        "content": "Hi {{topic}}",
        "isEntrypoint": True,
        "format": "YAML",
    }
    renamed = await change(
        "updatePromptFile",
        ", $fileName: ID!, $args: UpdatePromptFileInput!",
        ", fileName: $fileName, args: $args",
        "{ files { name content format } }",
        fileName="userPrompt",
        args={"name": "up", "content": None, "format": None},
    )
    assert renamed == {
        "files": [
            {"name": "systemPrompt", "content": "", "format": "TEXT"},
            {"name": "up", "content": "", "format": "TEXT"},
            {"name": "main", "content": "Hi {{topic}}", "format": "YAML"},
        ]
    }
    named = (", $fileName: ID!", ", fileName: $fileName")
    assert await change("deletePromptFile", *named, "", fileName="up") is True
    assert await change("deletePromptFile", *named, "", fileName="systemPrompt") is True
    entry = await change(
        "setPromptFileEntrypoint",
        ", $fileName: ID!, $isEntrypoint: Boolean!",
        ", fileName: $fileName, isEntrypoint: $isEntrypoint",
        "{ files { isEntrypoint } }",
        fileName="main",
        isEntrypoint=False,
    )
    assert entry == {"files": [{"isEntrypoint": False}]}
    for kind, type_, value in (
        ("String", "String", "x"),
        ("Integer", "Int", 3),
        ("Float", "Float", 1.5),
        ("Boolean", "Boolean", True),
    ):
        await change(
            f"promptVersionSet{kind}Metadata",
            f", $metadataKey: String!, $metadataValue: {type_}!",
            ", metadataKey: $metadataKey, metadataValue: $metadataValue",
            "{ version }",
            metadataKey=kind,
            metadataValue=value,
        )
    deleted = await change(
        "promptVersionDeleteMetadata",
        ", $metadataKey: String!",
        ", metadataKey: $metadataKey",
        "{ metadata }",
        metadataKey="Float",
    )
    assert deleted == {"metadata": {"String": "x", "Integer": 3, "Boolean": True}}
    patched = await change(
        "promptVersionPatchMetadata",
        ", $set: JSON, $replace: Boolean",
        ", set: $set, replace: $replace",
        "{ metadata }",
        set={"n": 5},
        replace=True,
    )
    assert patched == {"metadata": {"n": 5}}
    await change(
        "promptVersionSetOutputSchema",
        ", $outputSchema: JSON",
        ", outputSchema: $outputSchema",
        "{ version }",
        outputSchema={"type": "object"},
    )
    await change(
        "promptVersionSetReadme",
        ", $readme: String!",
        ", readme: $readme",
        "{ version }",
        readme="# x",
    )
    await change(
        "promptVersionSetModelConfig",
        ", $modelConfig: ModelConfigInput!",
        ", modelConfig: $modelConfig",
        "{ version }",
        modelConfig={"provider": "ANTHROPIC", "model": "m", "parameters": {"t": 1}},
    )
    tool = {"workspace": "acme", "name": "fetch-page"}
    await change(
        "linkTool",
        ", $args: LinkToolInput!",
        ", args: $args",
        "{ version }",
        args={"tool": {**tool, "version": "^1.0.0"}},
    )
    await change(
        "updateToolLink",
        ", $tool: ToolIdentifierInput!, $alias: String!",
        ", tool: $tool, alias: $alias",
        "{ version }",
        tool=tool,
        alias="fetch_page",
    )
    whole = await member.ask(
        "query GetPromptVersion($promptName: ID!, $constraint: String!) { prompt(promptName: "
        f"$promptName) {{ version(constraint: $constraint) {{ {PV} {PINS} hiddenTools }} }} }}",
        promptName="brief",
        constraint="draft",
    )
    assert whole.data["prompt"]["version"] == {
        "version": "0.0.1-draft.0",
        "status": "DRAFT",
        "createdAt": NOW,
        "updatedAt": NOW,
        "metadata": {"n": 5},
        "outputSchema": {"type": "object"},
        "decisionSpec": None,
        "modelConfig": {"provider": "ANTHROPIC", "model": "m", "parameters": {"t": 1}},
        "readme": "# x",
        "files": [
            {
                "name": "main",
                "content": "Hi {{topic}}",
                "isEntrypoint": False,
                "format": "YAML",
            }
        ],
        "tools": [
            {
                "alias": "fetch_page",
                "toolVersion": {
                    "version": "1.0.0",
                    "status": "PUBLISHED",
                    "modelDescription": "",
                    "tool": {"name": "fetch-page", "workspace": {"name": "acme"}},
                },
            }
        ],
        "hiddenTools": 0,
    }
    await change(
        "unlinkTool", ", $tool: ToolIdentifierInput!", ", tool: $tool", "{ version }", tool=tool
    )
    yaml = await member.ask(f"query({declared}) {{ evalYaml({passed}) }}", **at)
    assert yaml.data == {"evalYaml": None}
    done = await member.ask(
        f"mutation({declared}) {{ publishPromptVersion({passed}) {{ version status }} }}",
        promptName="brief",
        version="1.0.0",
    )
    assert done.data["publishPromptVersion"] == {"version": "1.0.0", "status": "PUBLISHED"}
    opened = await member.ask('mutation { createPromptVersion(promptName: "brief") { version } }')
    assert opened.data["createPromptVersion"] == {"version": "1.0.1-draft.0"}
    gone = await member.ask(f"mutation({declared}) {{ deletePromptVersion({passed}) }}", **at)
    assert gone.data == {"deletePromptVersion": True}
    listed = await member.ask(
        "query($p: PaginationArgs!, $s: PromptVersionStatus) { prompts(pagination: $p) { data { "
        'name } total } prompt(promptName: "brief") { description versions(pagination: $p, '
        "status: $s) { data { version files { inputSchema optionInputSchema schemaWarnings } } "
        "total } } }",
        p={"skip": 0, "take": 10},
        s="PUBLISHED",
    )
    versions = listed.data["prompt"]["versions"]
    assert listed.data["prompts"] == {"data": [{"name": "brief"}], "total": 1}
    assert (versions["total"], versions["data"][0]["version"]) == (1, "1.0.0")
    (inferred,) = versions["data"][0]["files"]
    assert inferred["inputSchema"]["properties"].keys() == {"topic"}
    assert isinstance(inferred["schemaWarnings"], list)
    described = await member.ask(
        'mutation { updatePrompt(promptName: "brief", args: {description: ""}) { description } '
        'updateTool(toolName: "fetch-page", args: {tags: ["web"]}) { description tags } }'
    )
    assert described.data == {
        "updatePrompt": {"description": ""},
        "updateTool": {"description": None, "tags": ["web"]},
    }


async def test_prompts_that_are_not_there_are_told_by_their_alias(member) -> None:
    """Registry wire interface §2.5: ``path`` names the alias of each missing prompt."""
    await member.ask('mutation { createPrompt(name: "here") { name } }')
    answer = await member.ask(
        'query ValidatePrompts { prompt_here: prompt(promptName: "here") { name } '
        'prompt_a_b: prompt(promptName: "a.b") { name } prompt_c: prompt(promptName: "c") { name }}'
    )
    assert answer.status == 200
    assert answer.json["data"] == {
        "prompt_here": {"name": "here"},
        "prompt_a_b": None,
        "prompt_c": None,
    }
    assert [error["path"] for error in answer.json["errors"]] == [["prompt_a_b"], ["prompt_c"]]


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        ('{ tool(toolName: "gone") { name } }', (200, "NOT_FOUND", "tool_unknown")),
        ('{ prompt(promptName: "gone") { name } }', (200, "NOT_FOUND", "prompt_unknown")),
        (
            '{ promptCollection(name: "g") { prompts { name } } }',
            (200, "NOT_FOUND", "collection_unknown"),
        ),
        (
            'mutation { createTool(name: "a.b") { name } }',
            (200, "BAD_USER_INPUT", "tool_name"),
        ),
        (
            "{ tools(pagination: {skip: -1, take: 5}) { total } }",
            (200, "BAD_USER_INPUT", "bad_page"),
        ),
        ("{ tools { total } }", (200, "BAD_USER_INPUT", "bad_query")),
        ("{ nothing }", (200, "BAD_USER_INPUT", "bad_query")),
        ("{", (200, "BAD_USER_INPUT", "bad_query")),
        ("subscription { x }", (200, "BAD_USER_INPUT", "bad_query")),
        ("query A { me { id } } query B { me { id } }", (200, "BAD_USER_INPUT", "bad_query")),
        (GET_TOOL, (200, "BAD_USER_INPUT", "bad_query")),
        ("", (200, "BAD_USER_INPUT", "bad_query")),
    ],
)
async def test_a_refusal_is_an_answer_with_data_null_and_one_code(member, query, rule) -> None:
    """Registry wire interface §1.3: 200, so that the public CLI shows the message."""
    answer = await member.ask(query)
    assert answer.rule == rule
    assert all(value is None for value in (answer.json["data"] or {}).values())
    assert answer.error["message"]


async def test_a_message_ends_with_what_to_do(member) -> None:
    """Registry wire interface §1.3: messages are the user interface."""
    error = (await member.ask('{ tool(toolName: "gone") { name } }')).error
    hint = error["extensions"]["hint"]
    assert error["message"].endswith(hint)
    refused = await member.ask(
        'mutation($s: JSON) { createTool(name: "t") { id } updateToolVersion(toolName: "t", '
        'version: "draft", input: {inputSchema: $s}) { version } }',
        s={"type": "object", "properties": {"a": {"type": "strin"}}},
    )
    extensions = refused.error["extensions"]
    assert extensions["rule"] == "bad_schema"
    assert extensions["problems"][0]["pointer"].startswith("/properties/a")


async def test_values_of_variables_are_checked_and_told(member) -> None:
    """Registry wire interface §2: types are declared by the client."""
    page = "query($p: PaginationArgs!) { tools(pagination: $p) { total } }"
    for value in ({"skip": 0}, {"skip": "0", "take": 1}, {"skip": 0, "take": 2**40}, 5, None):
        assert (await member.ask(page, p=value)).rule == (200, "BAD_USER_INPUT", "bad_query")
    for body in ([], 5, None, {"query": 5}, {"query": page, "variables": []}, {}):
        answer = await member.post("/graphql", body)
        assert answer.rule == (200, "BAD_USER_INPUT", "bad_query")
    big = (
        'mutation($v: Int!) { promptVersionSetIntegerMetadata(promptName: "p", version: '
        '"draft", metadataKey: "k", metadataValue: $v) { version } }'
    )
    assert (await member.ask(big, v=2**31)).rule == (200, "BAD_USER_INPUT", "bad_query")


async def test_who_may_not_read_is_told_the_same_as_about_what_is_not_there(
    serve, store, people, key_of
) -> None:
    """Security: names of private tools do not leak."""
    people.publish(people.member, "acme", "secret", "1.0.0")
    asker = serve(store).of(workspace="acme")
    for who in (asker, asker.of(token=key_of("stranger@else.test"))):
        hidden = (await who.ask(GET_TOOL, t="secret")).error
        absent = (await who.ask(GET_TOOL, t="absent")).error
        assert hidden["message"].replace("secret", "absent") == absent["message"]
    assert (await asker.ask('mutation { createTool(name: "x") { id } }')).rule == (
        200,
        "FORBIDDEN",
        "not_a_member",
    )
    people.ask(people.admin, registry.set_tool_visibility, "acme", "secret", Visibility.PUBLIC)
    assert (await asker.ask(GET_TOOL, t="secret")).data == {"tool": {"name": "secret"}}
    reader = asker.of(token=key_of(workspace="acme"))
    people.ask(people.member, registry.create_tool, "acme", "private")
    assert (await reader.ask(GET_TOOL, t="private")).data == {"tool": {"name": "private"}}


@pytest.mark.parametrize("workspace", [None, "Acme", "@acme", "acme/x", "аcme", "' OR 1=1 --", ""])
async def test_the_workspace_of_a_request_is_checked(member, workspace) -> None:
    """Registry wire interface §1.2: bare, and the client does not check it."""
    header = None if workspace is None else workspace.encode().decode("latin-1")
    answer = await member.of(workspace=header).ask(GET_TOOL, t="x")
    wanted = "no_workspace" if workspace is None else "workspace_name"
    assert answer.rule == (200, "BAD_USER_INPUT", wanted)


async def test_a_workspace_that_is_not_there_is_told(member) -> None:
    """Our choice: names of workspaces are no secret."""
    answer = await member.of(workspace="nobody").ask(GET_TOOL, t="x")
    assert answer.rule == (200, "NOT_FOUND", "workspace_unknown")


async def test_only_keys_that_are_good_are_let_in(serve, store, people, key_of, clock) -> None:
    """Registry wire interface §1.3: 401 makes the public CLI ask for a new login."""
    asker = serve(store).of(workspace="acme")
    later = clock() + timedelta(seconds=60)
    good, short = key_of("member@acme.test"), key_of("member@acme.test", expires_at=later)
    clock.advance(60)
    for token, rule in (
        ("rxu_" + "A" * 43, "key_unknown"),
        ("x" * 10_000, "key_unknown"),
        ("\xff' OR 1=1", "key_unknown"),
        (short, "key_expired"),
    ):
        answer = await asker.of(token=token).ask("{ me { email } }")
        assert answer.rule == (401, "UNAUTHENTICATED", rule)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert token not in answer.body.decode()
    for header in ("Basic eDp5", "Bearer", "Bearer ", good):
        answer = await asker.post(
            "/graphql", {"query": "{ me { email } }"}, {"Authorization": header}
        )
        assert answer.rule == (401, "UNAUTHENTICATED", "bad_authorization")
    answer = await asker.of(token=good).ask("{ me { email } }")
    assert answer.data == {"me": {"email": "member@acme.test"}}
    # Nobody in particular, and a workspace, are no user; their credentials are not at fault.
    for who in (asker, asker.of(token=key_of(workspace="acme"))):
        answer = await who.ask("{ me { email } }")
        assert answer.rule == (200, "UNAUTHENTICATED", "needs_user")


async def test_a_user_revokes_their_own_key_by_its_id(serve, store, people) -> None:
    """Registry wire interface §1.4: what logout sends."""
    made = people.ask(people.operator, registry.create_key, email="member@acme.test")
    other = people.ask(people.operator, registry.create_key, email="member@acme.test")
    revoke = "mutation RevokeUserApiKey($id: ID!) { revokeUserApiKey(id: $id) }"
    asker = serve(store).of(token=other.token)
    assert (await asker.ask(revoke, id=made.key.id)).data == {"revokeUserApiKey": True}
    assert (await asker.ask(revoke, id=made.key.id)).data == {"revokeUserApiKey": False}
    assert (await asker.ask(revoke, id=other.key.id)).data == {"revokeUserApiKey": True}
    assert (await asker.ask(revoke, id=other.key.id)).rule == (
        401,
        "UNAUTHENTICATED",
        "key_revoked",
    )


async def test_command_lines_publish_only_where_they_may(member, people) -> None:
    """Registry wire interface §1.3: the one code that the public CLI knows."""
    people.ask(people.member, registry.create_tool, "acme", "t")
    people.ask(people.member, registry.create_prompt, "acme", "p")
    tool = 'mutation { publishToolVersion(toolName: "t", version: "1.0.0") { version } }'
    prompt = 'mutation { publishPromptVersion(promptName: "p", version: "1.0.0") { version } }'
    cli = member.of(client="cli")
    for query in (tool, prompt):
        answer = await cli.ask(query)
        assert answer.rule == (200, "CLI_PUBLISHING_DISABLED", "CLI_PUBLISHING_DISABLED")
    assert (await member.ask(tool)).data["publishToolVersion"] == {"version": "1.0.0"}
    people.ask(people.owner, registry.set_workspace, "acme", cli_publishing=True)
    assert (await cli.ask(prompt)).data["publishPromptVersion"] == {"version": "1.0.0"}
    people.ask(people.owner, registry.set_workspace, "acme", cli_publishing=False)
    await cli.ask('mutation { createToolVersionDraft(toolName: "t") { version } }')
    again = 'mutation { publishToolVersion(toolName: "t", version: "1.1.0") { version } }'
    assert (await cli.ask(again)).rule[1] == "CLI_PUBLISHING_DISABLED"


async def test_visibility_and_deletion_are_not_for_command_lines(
    serve, store, people, key_of
) -> None:
    """Seed 3, "What stays in the web app"."""
    people.publish(people.member, "acme", "t", "1.0.0")
    people.ask(people.member, registry.create_prompt, "acme", "p")
    admin = serve(store).of(token=key_of("admin@acme.test"), workspace="acme")
    member = admin.of(token=key_of("member@acme.test"))
    queries = {
        "setToolVisibility": '(toolName: "t", visibility: PUBLIC) { visibility }',
        "setPromptVisibility": '(promptName: "p", visibility: PUBLIC) { visibility }',
        "deleteTool": '(toolName: "t")',
    }
    for name, rest in queries.items():
        query = f"mutation {{ {name}{rest} }}"
        refused = await admin.of(client="cli").ask(query)
        assert refused.rule == (200, "FORBIDDEN", "not_from_cli")
        assert (await member.ask(query)).rule == (200, "FORBIDDEN", "needs_admin")
        done = (await admin.ask(query)).data[name]
        assert done == ({"visibility": "PUBLIC"} if "Visibility" in name else True)


async def test_a_fault_of_ours_is_logged_and_not_shown(
    serve, store, people, key_of, caplog, monkeypatch
) -> None:
    """Security: an exception's text may quote anything."""
    token = key_of("member@acme.test")
    asker = serve(store).of(token=token, workspace="acme")

    def broken(*_args: object, **_named: object) -> None:
        raise RuntimeError("the secret is 42")

    monkeypatch.setattr(registry, "get_tool", broken)
    with caplog.at_level(logging.ERROR):
        answer = await asker.ask(GET_TOOL, t="x")
        monkeypatch.setattr(registry, "me", broken)
        both = await asker.ask("{ me { id } }")
    assert answer.rule == both.rule == (200, "INTERNAL", "internal")
    assert b"42" not in answer.body + both.body
    assert "the secret is 42" in caplog.text
    assert token not in caplog.text


async def test_refusals_are_not_logged(member, caplog) -> None:
    """Our choice: whoever asks wrongly must not fill the log."""
    with caplog.at_level(logging.DEBUG):
        await member.ask('{ tool(toolName: "gone") { name } }')
        await member.ask("{ nothing }")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_other_routes_and_methods_are_not_there(member) -> None:
    """Our choice: nothing is served that is not asked for."""
    assert (await member.send("GET", "/graphql")).status == 405
    assert (await member.send("GET", "/")).status == 404
    assert (await member.post("/oauth/token", {})).status == 404
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = await member.send("POST", "/graphql", b"{}", {"Content-Type": kind})
        assert answer.rule == (415, "BAD_USER_INPUT", "bad_media_type")
    body = b'{"query": "{ me { email } }"}'
    answer = await member.send(
        "POST", "/graphql", body, {"Content-Type": "Application/JSON; charset=utf-8"}
    )
    assert answer.data == {"me": {"email": "member@acme.test"}}
