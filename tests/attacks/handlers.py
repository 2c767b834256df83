"""Turns the body of a case into a handler, with the names that bodies may use."""

from __future__ import annotations

import textwrap

from tests.attacks.model import Case

__all__ = ["BYSTANDER", "SIBLING", "render"]

_JS = """\
import fs from 'node:fs';
import path from 'node:path';
import os from 'node:os';
import cp from 'node:child_process';
import net from 'node:net';
import dgram from 'node:dgram';
import dns from 'node:dns';
import wt from 'node:worker_threads';
import module from 'node:module';
%(before)s
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const json = (value) => ({ content: [{ type: 'json', value }] });
function recorder(report) {
  return async function attempt(name, action, limit = 900) {
    let timer;
    const slow = new Promise((_, no) => {
      timer = setTimeout(() => no({ code: 'SLOW' }), limit);
    });
    try {
      const value = await Promise.race([Promise.resolve(action()), slow]);
      report[name] = 'ok' + (value === undefined ? '' : ':' + String(value).slice(0, 80));
    } catch (error) {
      report[name] = String(error?.code ?? error?.name ?? error);
    } finally {
      clearTimeout(timer);
    }
  };
}
export async function handler(args, context) {
  if (args.good) return { content: [{ type: 'text', text: 'good' }] };
  const w = args.w, report = {}, attempt = recorder(report), scratch = process.env.TMPDIR;
%(body)s
  return json(report);
}
"""

_PY = """\
import ctypes, errno, fcntl, os, signal, socket, stat, struct, subprocess, sys, threading, time
%(before)s
L = ctypes.CDLL(None, use_errno=True)

def json(value):
    return {'content': [{'type': 'json', 'value': value}]}

def name_of(error):
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, str(error.errno))
    return type(error).__name__

def checked(result):
    if result is not None and result < 0:
        raise OSError(ctypes.get_errno(), '')
    return result

def handler(args, context):
    if args.get('good'):
        return {'content': [{'type': 'text', 'text': 'good'}]}
    w, report, scratch = args['w'], {}, os.environ['TMPDIR']

    def attempt(name, action, *rest, **named):
        try:
            value = action(*rest, **named)
            report[name] = 'ok' if value is None else 'ok:' + repr(value)[:80]
        except BaseException as error:
            report[name] = name_of(error)

    def raw(name, *rest):
        number = w['nr'].get(name)
        if number is None:
            raise OSError(errno.ENOSYS, '')
        return checked(L.syscall(number, *rest))

    def read(path, size=4096):
        with open(path, 'rb') as file:
            return file.read(size)

    def write(path, data=b'x', mode='wb'):
        with open(path, mode) as file:
            file.write(data)

%(body)s
    return json(report)
"""

SIBLING = """\
import os
token = None

def handler(args, context):
    global token
    token = args['token']
    os.environ['SIBLING_SECRET'] = token
    with open(os.path.join(os.environ['TMPDIR'], 'token'), 'w') as file:
        file.write(token)
    context.signal.wait()
    return {'content': []}
"""

BYSTANDER = """\
import fs from 'node:fs';
export function validateArgs() {}
const natives = [Array.prototype.push, JSON.stringify, JSON.parse, fs.readFileSync, Promise];
export async function handler(args, context) {
  if (args.good) return { content: [{ type: 'text', text: 'good' }] };
  const value = {
    native: natives.every((f) => /native code|node:|function/.test(String(f))),
    pushed: [1].push(2),
    text: JSON.stringify({ a: 1 }),
    poison: globalThis.poison ?? null,
    env: Object.keys(process.env).sort(),
    scratch: fs.readdirSync(process.env.TMPDIR),
  };
  return { content: [{ type: 'json', value }] };
}
"""


def render(case: Case) -> str:
    """Return the source of a case's entry file."""
    if case.language == "js":
        return _JS % {"before": case.before, "body": case.body}
    body = textwrap.indent(textwrap.dedent(case.body).strip("\n"), "    ")
    return _PY % {"before": textwrap.dedent(case.before), "body": body}
