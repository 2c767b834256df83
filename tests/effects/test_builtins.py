"""Node's builtin modules as a descriptor sees them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from raw_exec.effects import DescriptorFailed, EngineUnsupported
from requires import require_node

VECTORS = Path(__file__).with_name("builtin_vectors.mjs")


@pytest.mark.slow
def test_pure_builtins_answer_as_node_does(load) -> None:
    """Ours: path, url, buffer, util, querystring, assert, events over 2,000 cases."""
    node = require_node()
    program = f"import {{ vectors }} from {json.dumps(VECTORS.as_uri())};" + (
        "process.stdout.write(JSON.stringify(vectors()))"
    )
    command = [node, "--input-type=module", "-e", program]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    module = load(
        "import { vectors } from './vectors.mjs';"
        "export function describeEffects() { return JSON.parse(JSON.stringify(vectors())) }",
        files={"vectors.mjs": VECTORS.read_bytes()},
        deadline_ms=20_000,
    )
    ours = module.describe_effects({}, cwd="/")
    assert isinstance(ours, list)
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]] == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import { readFileSync } from 'node:fs'; X(readFileSync('/etc'))", "fs.readFileSync"),
        ("import fs from 'fs'; X(fs.promises.readFile('x'))", "fs.promises.readFile"),
        ("import * as fs from 'node:fs/promises'; X(fs.readFile('x'))", "fs/promises.readFile"),
        ("import { spawn } from 'child_process'; X(spawn('id'))", "child_process.spawn"),
        ("import { connect as c } from 'node:net'; X(c(1))", "net.connect"),
        ("import http from 'node:http'; X(http.get('http://x'))", "http.get"),
        ("import { Worker } from 'worker_threads'; X(new Worker('x'))", "worker_threads.Worker"),
        ("import os from 'node:os'; X(os.hostname())", "os.hostname"),
        ("import { homedir } from 'node:os'; X(homedir())", "os.homedir"),
        ("import { randomBytes } from 'node:crypto'; X(randomBytes(1))", "crypto.randomBytes"),
        ("import { Readable } from 'stream'; class R extends Readable {} X(new R())", "Readable"),
        ("import { setTimeout as s } from 'timers/promises'; X(s(1))", "promises.setTimeout"),
        ("import { createRequire } from 'node:module'; X(createRequire('/'))", "createRequire"),
        ("X(setTimeout(() => {}, 1))", "setTimeout"),
        ("X(fetch('http://x'))", "fetch"),
        ("X(crypto.randomUUID())", "crypto.randomUUID"),
        ("X(process.exit(1))", "process.exit"),
        ("X(process.cwd())", "process.cwd()"),
        ("X(process.stdout.write('x'))", "process.stdout.write"),
        ("import { resolve } from 'node:path'; X(resolve('a'))", "process.cwd()"),
    ],
)  # fmt: skip
def test_io_imports_fine_and_throws_when_used(load, source: str, message: str) -> None:
    """design.md §3: code that only the handler reaches does not keep descriptors out."""
    imports, _, use = source.rpartition("X(")
    module = load(f"{imports} export function validateArgs() {{ return ({use}; }}")
    with pytest.raises(DescriptorFailed, match="is not available in a descriptor") as caught:
        module.validate_args({})
    assert message in caught.value.message
    assert caught.value.code == "threw"


def test_io_functions_can_be_handed_around_at_import(load) -> None:
    """Ours: common top-level patterns of handlers."""
    module = load(
        "import { promisify } from 'node:util'; import { execFile } from 'node:child_process';"
        "import fs, { constants } from 'node:fs'; import { EventEmitter } from 'node:events';"
        "import { Transform } from 'node:stream';"
        "const run = promisify(execFile); const { readFile, writeFile: w } = fs.promises;"
        "class T extends Transform {} class E extends EventEmitter {}"
        "const mode = constants.R_OK; const log = console.log.bind(console);"
        "export function validateArgs() { log('quiet');"
        "  return [typeof run, typeof readFile, typeof T, new E().listenerCount('x')].join() }"
    )
    assert module.validate_args({}) == "function,function,function,0"


def test_a_plugin_sees_nothing_of_the_host(load) -> None:
    """Ours: no environment, no real paths, no arguments, no other modules."""
    module = load(
        "export function describeEffects() { return { url: import.meta.url,"
        "  env: { ...process.env }, argv: [...process.argv], pid: process.pid, std: typeof std,"
        "  os: typeof os,"
        "  require: typeof require, scriptArgs: typeof scriptArgs, print: typeof print } }"
    )
    assert module.describe_effects({}, cwd="/") == {
        "url": "file:///plugin/index.mjs",
        "env": {},
        "argv": [],
        "pid": 0,
        "std": "undefined",
        "os": "undefined",
        "require": "undefined",
        "scriptArgs": "undefined",
        "print": "undefined",
    }


@pytest.mark.parametrize("name", ["node:sqlite", "node:test", "node:nothing", "bun:ffi"])
def test_an_unknown_builtin_is_unsupported(load, name: str) -> None:
    """Ours: the reason names it."""
    with pytest.raises(EngineUnsupported, match=name):
        load(f"import x from '{name}'; export function validateArgs() {{}}")


def test_a_name_a_pure_shim_lacks_imports_and_throws_when_used(load) -> None:
    """Ours: the same rule for real shims."""
    module = load(
        "import { getSystemErrorName, format } from 'node:util';"
        "export function validateArgs(a) { return a.x ? getSystemErrorName(1) : format('%s', 1) }"
    )
    assert module.validate_args({}) == "1"
    with pytest.raises(DescriptorFailed, match=r"util\.getSystemErrorName"):
        module.validate_args({"x": 1})


def test_globals_are_there_however_they_are_reached(load) -> None:
    """Ours: mentioning globalThis brings every global of Node."""
    module = load(
        "const name = ['Buf', 'fer'].join('');"
        "export function validateArgs() { return globalThis[name].from('hi').toString('hex') }"
    )
    assert module.validate_args({}) == "6869"


def test_the_seeds_example_is_judged_in_process(load) -> None:
    """Seed 2, "Working example": its messages, and effects made with node:path."""
    module = load(
        'import { appendFile, mkdir } from "node:fs/promises";\n'
        'import { dirname, resolve } from "node:path";\n'
        "export function validateArgs(args) {\n"
        '  if (typeof args.path !== "string" || !args.path.trim())\n'
        '    return "path must be a nonempty string";\n'
        '  if (typeof args.text !== "string" || !args.text.endsWith("\\n"))\n'
        "    return 'text must end with a newline';\n"
        "  return undefined;\n}\n"
        "export async function handler(args, context) {\n"
        "  const path = resolve(context.cwd, args.path);\n"
        "  await mkdir(dirname(path), { recursive: true });\n"
        '  await appendFile(path, args.text, "utf8");\n'
        "  const text = `${Buffer.byteLength(args.text)} bytes`;\n"
        "  return { content: [{ type: 'text', text }] };\n}\n"
        "export const describeEffects = (a, { cwd }) =>"
        " ({ files: [{ path: resolve(cwd, a.path), operation: 'write' }] });"
    )
    assert module.exports == {"handler", "validateArgs", "describeEffects"}
    assert module.validate_args({"path": "a", "text": "x"}) == "text must end with a newline"
    assert module.validate_args({"path": " ", "text": "x\n"}) == "path must be a nonempty string"
    assert module.validate_args({"path": "a", "text": "x\n"}) is None
    assert module.describe_effects({"path": "../a"}, cwd="/w/d") == {
        "files": [{"path": "/w/a", "operation": "write"}]
    }
