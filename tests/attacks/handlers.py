"""Turns the body of a case into a handler, with the names that bodies may use."""

from __future__ import annotations

import textwrap

from tests.attacks.model import Case

__all__ = ["BYSTANDER", "PY_BYSTANDER", "SIBLING", "render"]

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
const deny = () => { throw { code: 'DENIED' }; };
function code_of(error) {
  return String(error?.cause?.code ?? error?.code ?? error?.name ?? error);
}
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
      report[name] = code_of(error);
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

class Denied(Exception):
    pass

class Broken(Exception):
    pass

def deny():
    raise Denied

def name_of(error):
    if isinstance(error, Denied):
        return 'DENIED'
    if isinstance(error, Broken):
        return f'broken: {error}'
    if isinstance(error, socket.gaierror):
        names = [n for n in dir(socket) if n.startswith('EAI_')]
        return next((n for n in names if getattr(socket, n) == error.errno), 'gaierror')
    if isinstance(error, socket.herror):
        return 'herror'
    if isinstance(getattr(error, 'reason', None), OSError):
        return name_of(error.reason)
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, str(error.errno))
    return type(error).__name__

SAID = {os.strerror(n): n for n in (
    errno.EPERM, errno.EACCES, errno.ENOENT, errno.EROFS, errno.ESRCH, errno.ENOSYS,
    errno.EAFNOSUPPORT, errno.ECONNREFUSED, errno.ENETUNREACH)}
SAID['must be superuser'] = errno.EPERM  # mount's own word, which asks the kernel only as root
SAID['Directory nonexistent'] = errno.ENOENT  # in the words of a shell
SAID['Not superuser'] = errno.EPERM
SAID['su: Critical error'] = errno.EACCES  # of the files that say who may become whom

def program(*command, **more):
    '''Run a program; its refusal is what it says of the kernel's, not that it failed.'''
    env = {**os.environ, 'LC_ALL': 'C', 'PATH': '/usr/sbin:/sbin:/usr/bin:/bin'}
    done = subprocess.run(command, capture_output=True, text=True, timeout=3, env=env, **more)
    if done.returncode == 0:
        return done.stdout or 'did'
    for text, number in SAID.items():
        if text.lower() in done.stderr.lower():
            raise OSError(number, '')
    raise Broken(f'{done.returncode} {done.stderr.strip()[:100]}')

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
import module from 'node:module';
export function validateArgs() {}
const text = Function.prototype.toString;
const lines = (f) => Reflect.apply(text, f, []);
export async function handler(args, context) {
  if (args.good) return { content: [{ type: 'text', text: 'good' }] };
  const typed = Object.getPrototypeOf(Uint8Array.prototype);
  const natives = {
    push: Array.prototype.push, iterator: Array.prototype[Symbol.iterator],
    stringify: JSON.stringify, parse: JSON.parse, exec: RegExp.prototype.exec,
    slice: String.prototype.slice, call: Function.prototype.call, set: typed.set,
    setUint32: DataView.prototype.setUint32, then: Promise.prototype.then,
  };
  const tests = {
    push: [1].push(2) === 2, json: JSON.stringify({ a: 1 }) === '{"a":1}',
    poison: globalThis.poison === undefined && globalThis.keep === undefined,
    prototype: Object.keys(Object.prototype).length === 0 && !('toJSON' in {}),
    fields: ({}).id === undefined && ({}).t === undefined,
    buffer: Buffer.from('x').length === 1, slice: 'abc'.slice(1) === 'bc',
    file: fs.readFileSync('/dev/null', 'utf8') === '',
    loader: lines(module._load).includes('request'),
    env: process.env.POISON === undefined && process.env.PATH !== 'x',
    exit: process.exitCode === undefined, title: !process.title.includes(args.w.mark),
    listeners: process.listenerCount('message') + process.listenerCount('SIGTERM') === 0,
    scratch: fs.readdirSync(process.env.TMPDIR).length === 0,
  };
  for (const [name, f] of Object.entries(natives)) {
    if (!lines(f).includes('[native code]')) tests['native ' + name] = false;
  }
  const wrong = Object.keys(tests).filter((name) => !tests[name]);
  return { content: [{ type: 'json', value: { wrong } }] };
}
"""
"""Another plugin: it names what it finds that is not as a new process has it."""

PY_BYSTANDER = """\
import builtins, gc, json, os, signal, struct, sys, threading

def handler(args, context):
    if args.get('good'):
        return {'content': [{'type': 'text', 'text': 'good'}]}
    kind = type(len)
    natives = (open, len, isinstance, hasattr, os.write, os.read, struct.pack, os._exit)
    tests = {
        'native': all(kind.__name__ in str(builtins.type(f)) for f in natives),
        'types': builtins.type is type and isinstance(1, int) and not isinstance(1, str),
        'len': len([]) == 0, 'pack': struct.pack('>I', 1) == b'\\0\\0\\0\\1',
        'poison': not any(hasattr(sys, name) for name in ('poison', 'leak', 'keep')),
        'modules': sys.modules.get('json') is json and json.dumps({'a': 1}) == '{"a": 1}',
        'finders': not any(builtins.type(f) is object for f in sys.meta_path),
        'path': os.environ['TMPDIR'] not in sys.path,
        'env': not any(name.startswith('POISON') for name in os.environ),
        'trace': sys.gettrace() is None and sys.getprofile() is None,
        'hooks': sys.excepthook is sys.__excepthook__ and
                 threading.excepthook is threading.__excepthook__,
        'recursion': sys.getrecursionlimit() >= 1000, 'switch': sys.getswitchinterval() < 1,
        'gc': gc.isenabled(), 'stdout': sys.stdout is not None,
        'alarm': signal.getsignal(signal.SIGALRM) == signal.SIG_DFL,
        'threads': threading.active_count() == 1,
        'scratch': os.listdir(os.environ['TMPDIR']) == [],
    }
    return {'content': [{'type': 'json', 'value': {'wrong': [n for n in tests if not tests[n]]}}]}
"""


def render(case: Case) -> str:
    """Return the source of a case's entry file."""
    if case.language == "js":
        return _JS % {"before": case.before, "body": case.body}
    body = textwrap.indent(textwrap.dedent(case.body).strip("\n"), "    ")
    return _PY % {"before": textwrap.dedent(case.before), "body": body}
